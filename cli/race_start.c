// SPDX-License-Identifier: MIT
/* race_start.c - the region that a run shares with its processes, and the command with the agent. */
#include "cli/agent_start.h"
#include "cli/clock.h"
#include "cli/cmd.h"
#include "cli/program.h"
#include "cli/race.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COMMAND "race"
#define REGION_NAME "trapline-race"
#define HEAP "libtrapline-heap.so"
#define TICKS_PART 5u /* of the budget */
#define TICK_LEAST_NS 251000u
#define TICK_MOST_NS 100000000u
#define TICK_ODD_PART 181u /* no multiple of the scheduler's tick */
#define TICK_FAST_PRICES 40u
#define YOUNG_NS 100000000u
#define YOUNG_REST_NS 900000000u /* a build starts one after the other */

/* Ours is what the command inherits: what notes the heap's blocks is preloaded by that. */
static int preload_heap(void)
{
	const char *preload = getenv("LD_PRELOAD");
	char path[PATH_MAX + 64];
	char text[2 * PATH_MAX];

	if (agent_beside(HEAP, path, sizeof(path)))
		return cli_wrong(COMMAND, "--heap: no " HEAP " beside the agent");
	snprintf(text, sizeof(text), "%s%s%s", path, preload && *preload ? ":" : "",
		 preload ? preload : "");
	setenv("LD_PRELOAD", text, 1);
	return 0;
}

int race_region_open(const struct race_cli_settings *set, struct race_run *run)
{
	run->region = agent_region_open(REGION_NAME, sizeof(*run->region), &run->region_fd);
	if (!run->region)
		return cli_wrong(COMMAND, "no memory to share with the program: %s",
				 strerror(errno));
	run->region->bytes = sizeof(struct race_region);
	run->region->settings.budget_ppm = set->budget_ppm;
	run->region->settings.delay_ns = set->delay_ns;
	run->region->settings.is_sweep = (uint64_t)set->sweep;
	run->region->settings.is_heap = (uint64_t)set->heap;
	run->region->observer = getpid();
	run->region->magic = RACE_MAGIC;
	race_look(run);
	if (!set->sweep && !set->replay)
		race_cpus_prepare();
	int status = race_price(&run->region->settings.trap_ns);
	return !status && set->heap ? preload_heap() : status;
}

void race_look(struct race_run *run)
{
	__atomic_store_n(&run->region->looked_ns, now_ns(), __ATOMIC_SEQ_CST);
	race_cpus_look(&run->cpus, run->region);
	if (run->cpus.count && __atomic_load_n(&run->region->processes[0].is_on_cpus, __ATOMIC_SEQ_CST))
		race_ticks_forget_tasks(&run->ticks);
}

const char *const race_step_names[RACE_STEPS] = {
	[RACE_STEP_NONE] = "",
	[RACE_STEP_SIGNAL] = "SIGTRAP could not be handled",
	[RACE_STEP_TIMER] = "no task clock could be opened (perf_event_open)",
	[RACE_STEP_WATCH] = "no watchpoint could be opened: debug registers in use or missing",
	[RACE_STEP_BREAK] = "no debug register was left for a breakpoint",
	[RACE_STEP_DECODER] = "libZydis.so.4.0 is not installed",
	[RACE_STEP_RUNTIME] = "written in Go, whose runtime takes all signals for its own",
	[RACE_STEP_SECCOMP] = "seccomp forbids the system calls that the search needs",
	[RACE_STEP_DESCRIPTORS] = "too few descriptors",
	[RACE_STEP_UNWATCHED] = "we did not look there for a minute, and were taken for gone",
};

/* A held thread sleeps, so others come even then; but never two that run at the same time. */
void race_note_cpus(pid_t pid)
{
	if (program_cpus(pid) == 1)
		cli_note(COMMAND, "only one CPU may be used (taskset, cpuset): a race is found only "
			 "where threads are switched within a stall, which is far less. Allow two");
}

/* What can be known of a command before it runs. */
int race_command_check(const struct race_cli_settings *set)
{
	char path[PATH_MAX];

	if (!program_find(set->command[0], path, sizeof(path)) && program_is_go(path))
		return cli_wrong(COMMAND, "%s is written in Go, whose runtime takes all signals for its "
				 "own: build it with -race instead", path);
	if (program_seccomp(getpid()))
		return cli_wrong(COMMAND, "we run under a seccomp filter, and so would %s: one system "
				 "call of the search could be its end. Run without it (containers: "
				 "--security-opt seccomp=unconfined)", set->command[0]);
	int status = agent_command_check(COMMAND, set->command);
	if (!status)
		race_note_cpus(getpid());
	return status;
}

bool race_others_search(const struct race_run *run)
{
	const struct race_region *region = run->region;

	for (uint32_t i = 0; i < RACE_PROCESSES && region->processes[i].state; i++)
		if (region->processes[i].state == RACE_PROCESS_LIVE &&
		    !kill(region->processes[i].pid, 0))
			return true;
	return false;
}

/* Processes that go on without us hold nobody any more, and their next tick takes all away. */
static void end_others(const struct race_run *run)
{
	struct timespec pause = { 0, 1000000 };

	__atomic_store_n(&run->region->stop, 1u, __ATOMIC_SEQ_CST);
	for (int i = 0; i < RACE_LAST_TICK_MS && run->ticks.count && race_others_search(run); i++)
		nanosleep(&pause, NULL);
}

void race_region_close(struct race_run *run)
{
	if (!run->region)
		return;
	end_others(run);
	race_ticks_close(&run->ticks);
	race_cpus_close(&run->cpus);
	agent_region_close(run->region, sizeof(*run->region), run->region_fd);
}

/* One tick of each CPU. Behind a barrier all wait for each of them, as for who is held. */
static uint64_t round_price_ns(const struct race_run *run)
{
	return run->ticks.price_ns * (uint64_t)run->ticks.count;
}

/* A part of the budget goes into ticks, most of which come before their time and are told to nobody. */
static uint64_t tick_period_ns(const struct race_run *run)
{
	uint64_t share = run->region->settings.budget_ppm / TICKS_PART;
	uint64_t period = share ? round_price_ns(run) * 1000000 / share : TICK_MOST_NS;

	period += period / TICK_ODD_PART;
	period = period < TICK_LEAST_NS ? TICK_LEAST_NS : period;
	return period > TICK_MOST_NS ? TICK_MOST_NS : period;
}

/* Of a young process, which may not live long. */
static uint64_t fast_period_ns(const struct race_run *run)
{
	uint64_t period = run->ticks.price_ns * TICK_FAST_PRICES;

	return period < TICK_LEAST_NS ? TICK_LEAST_NS : period;
}

void race_ticks_settle(struct race_run *run)
{
	struct race_settings *set = &run->region->settings;
	uint64_t period = tick_period_ns(run);

	for (int i = 0; i < run->ticks.count && set->clock_count < RACE_CLOCKS; i++)
		set->clock_fds[set->clock_count++] = run->ticks.fds[i];
	set->tick_ppm = round_price_ns(run) * 1000000 / period;
	race_ticks_pace(&run->ticks, set->pid ? period : fast_period_ns(run));
}

/* A process in a container could not copy them: it does not see us. */
void race_cpus_settle(struct race_run *run)
{
	const struct race_settings *set = &run->region->settings;

	if (set->pid && !race_is_in_first_namespace((pid_t)set->pid))
		race_cpus_close(&run->cpus);
	else
		race_cpus_open(&run->cpus, run->ticks.map_fd, &run->region->settings);
}

void race_pace(const struct race_cli_settings *set, struct race_run *run)
{
	uint64_t count = __atomic_load_n(&run->region->process_count, __ATOMIC_RELAXED);
	uint64_t now = now_ns();

	if (!run->region->settings.has_ticks || set->pid)
		return;
	if (count != run->known_processes && now > run->fast_until_ns + YOUNG_REST_NS)
		run->fast_until_ns = now + YOUNG_NS;
	run->known_processes = count;
	race_ticks_pace(&run->ticks, now < run->fast_until_ns ? fast_period_ns(run) :
				     tick_period_ns(run));
}

/*
 * A sweep and a replay find by traps. Without privilege the processes have clocks of their own,
 * which cost more at each switch of a thread and find the same. All but a sweep and a replay run once.
 */
static void prepare_ticks(const struct race_cli_settings *set, struct race_run *run)
{
	struct race_settings *shared = &run->region->settings;

	if (set->sweep || set->replay)
		return;
	int err = race_ticks_open(&run->ticks);
	if (!err) {
		race_ticks_settle(run);
		shared->gate_magic = now_ns() * 0x9e3779b97f4a7c15u | 1;
		err = race_ticks_start(&run->ticks, RACE_GATE_AT, shared->gate_magic);
	}
	shared->has_ticks = !err;
	if (!err) {
		race_cpus_settle(run);
		return;
	}
	race_ticks_close(&run->ticks);
	race_cpus_close(&run->cpus);
}

int race_command_start(const struct race_cli_settings *set, struct race_run *run)
{
	char options[PATH_MAX];

	prepare_ticks(set, run);
	agent_option("race", run->region_fd, options, sizeof(options));
	run->region->run++;
	return agent_command_start(COMMAND, set->command, options, &run->pid);
}

/* A pid may be another process by now: ours has the region mapped. */
static bool is_of_run(pid_t pid)
{
	uint64_t start;
	uint64_t end;

	return program_mapping(pid, "/memfd:" REGION_NAME, 0, &start, &end);
}

void race_others_signal(const struct race_run *run, int signal)
{
	const struct race_region *region = run->region;

	for (uint32_t i = 0; i < RACE_PROCESSES; i++) {
		const struct race_process *p = &region->processes[i];

		if (p->state >= RACE_PROCESS_LIVE && p->run == region->run && p->pid > 0 &&
		    p->pid != run->pid && is_of_run(p->pid))
			kill(p->pid, signal);
	}
}
