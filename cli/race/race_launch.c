/* SPDX-License-Identifier: MIT */
/*
 * race_launch.c - the region that a run shares with its processes, and the start of a
 * command.
 */
#include "cli/race/race_launch.h"

#include "base/clock.h"
#include "base/sys.h"
#include "cli/launch/agent_start.h"
#include "cli/launch/program.h"
#include "cli/message.h"
#include "cli/race/race_side.h"

#include <trapline/trapline.h>

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COMMAND "race"
#define PRICE_TRIES 8
#define REGION_NAME "trapline-race"
#define HEAP "libtrapline-heap.so"
#define TICKS_PART 5u /* of the budget */
#define TICK_LEAST_NS 251000u
#define TICK_MOST_NS 100000000u
#define TICK_ODD_PART 181u /* not a multiple of the period of the scheduler */
#define TICK_FAST_PRICES 40u
#define YOUNG_NS 100000000u
#define YOUNG_REST_NS 900000000u /* a build starts one after the other */

/* The command inherits this environment, which preloads the recorder of heap blocks. */
static int preload_heap(void)
{
	char path[PATH_MAX + 64];

	if (agent_beside(HEAP, path, sizeof(path)))
		return cli_wrong(COMMAND, "cannot use --heap: no " HEAP " beside the agent");
	agent_preload(path);
	return 0;
}

static uint64_t hits;

static enum trapline_action on_price(const struct trapline_hit *hit)
{
	hits++;
	return TRAPLINE_GO_ON;
}

static __attribute__((noipa)) void price_here(void)
{
	__asm__ volatile("" ::: "memory");
}

/* What one trap costs here. 0, or -errno and the reason: no watch can be had. */
static int measure_trap(uint64_t *trap_ns, char *why, size_t bytes)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *ev = NULL;
	struct trapline *self = NULL;
	uint64_t best = UINT64_MAX;

	opts.callback = on_price;
	opts.scope = TRAPLINE_CALLER;
	int err = trapline_open(0, NULL, &self);
	if (!err)
		err = trapline_break(self, (uintptr_t)price_here, &opts, &ev);
	if (err)
		trapline_explain(err, why, bytes);
	for (int i = 0; !err && i < PRICE_TRIES; i++) {
		uint64_t start = clock_now_ns();
		price_here();
		uint64_t took = clock_now_ns() - start;
		best = took < best ? took : best;
	}
	trapline_event_close(ev);
	trapline_close(self);
	if (!err && !hits)
		snprintf(why, bytes, "one did not fire; see `trapline check`");
	*trap_ns = best;
	return err ? err : hits ? 0 : -ENODEV;
}

/* Inside, unless no debug register works. Where all are in use, one may be free in a moment. */
static int choose_side(struct race_cli_settings *set, struct race_run *run)
{
	char why[600];

	int err = measure_trap(&run->region->settings.trap_ns, why, sizeof(why));
	if (!err)
		return CLI_OK;
	if (err == -ENOSPC || err == -EBUSY || !race_side_may_be_outside(set))
		return cli_wrong(COMMAND, "cannot search: no hardware breakpoint is available: %s",
				 why);
	cli_note(COMMAND, "no hardware breakpoint is available: %s; searching as --outside does",
		 why);
	set->outside = 1;
	run->region->settings.is_outside = 1;
	return CLI_OK;
}

int race_region_open(struct race_cli_settings *set, struct race_run *run)
{
	int status = agent_region_open(COMMAND, REGION_NAME, RACE_MAGIC, sizeof(*run->region),
				       &run->memory);

	if (status)
		return status;
	run->region = (struct race_region *)run->memory.head;
	run->region->settings.gate_magic = run->memory.head->nonce[0] | 1;
	run->region->settings.budget_ppm = set->budget_ppm;
	run->region->settings.delay_ns = set->delay_ns;
	run->region->settings.is_sweep = (uint64_t)set->sweep;
	run->region->settings.is_heap = (uint64_t)set->heap;
	run->region->settings.is_outside = (uint64_t)set->outside;
	race_look(run);
	if (set->outside)
		return CLI_OK;
	if (!set->sweep && !set->replay)
		race_cpus_prepare();
	status = choose_side(set, run);
	return !status && set->heap ? preload_heap() : status;
}

void race_look(struct race_run *run)
{
	__atomic_store_n(&run->region->looked_ns, clock_now_ns(), __ATOMIC_SEQ_CST);
	race_cpus_look(&run->cpus, run->region);
	race_members_look(&run->members, run->region);
	race_outside_look(&run->outside);
	if (run->cpus.count &&
	    __atomic_load_n(&run->region->processes[0].is_on_cpus, __ATOMIC_SEQ_CST))
		race_ticks_forget_tasks(&run->ticks);
}

/* A stalled thread sleeps, so others run even then; but never two at the same time. */
void race_note_cpus(pid_t pid)
{
	if (program_cpus(pid) == 1)
		cli_note(COMMAND,
			 "only one CPU is available (taskset, cpuset): races are found only if a "
			 "thread switch falls into a stall; allow at least two");
}

const struct search_kind race_search = {
	.command = COMMAND,
	.verb = "search",
	.why_not_go = "whose runtime handles all signals; build it with -race instead",
	.loaded = "detector",
};

/* What can be checked before the command runs. */
int race_command_check(const struct race_cli_settings *set)
{
	int status = search_check_command(&race_search, set->command);

	if (!status)
		race_note_cpus(getpid());
	return status;
}

bool race_others_search(const struct race_run *run)
{
	const struct race_region *region = run->region;

	for (uint32_t i = 0; i < RACE_PROCESSES && region->processes[i].state; i++)
		if (region->processes[i].state == RACE_PROCESS_LIVE &&
		    race_is_process(__atomic_load_n(&region->processes[i].pid, __ATOMIC_RELAXED)))
			return true;
	return false;
}

/* Its processes stall no thread any more, and end the search at their next sample. */
static void end_search(struct race_run *run)
{
	__atomic_store_n(&run->region->stop, 1u, __ATOMIC_SEQ_CST);
}

static void wait_for_last_sample(const struct race_run *run)
{
	struct timespec pause = { 0, 1000000 };

	for (int i = 0; i < RACE_LAST_TICK_MS && race_others_search(run); i++)
		nanosleep(&pause, NULL);
}

static void close_ticks(struct race_run *run)
{
	run->members.map_fd = -1;
	race_ticks_close(&run->ticks);
	race_cpus_close(&run->cpus);
}

void race_command_leave(struct race_run *run)
{
	race_outside_end(&run->outside);
	end_search(run);
	wait_for_last_sample(run);
	close_ticks(run);
}

void race_region_close(struct race_run *run)
{
	if (!run->region)
		return;
	race_outside_close(&run->outside);
	end_search(run);
	if (run->ticks.count)
		wait_for_last_sample(run);
	close_ticks(run);
	agent_region_close(&run->memory);
	run->region = NULL;
}

/*
 * One sample on each CPU. At a barrier all threads wait for each of them, as for a stall.
 */
static uint64_t round_price_ns(const struct race_run *run)
{
	return run->ticks.price_ns * (uint64_t)run->ticks.count;
}

/*
 * A part of the budget pays for samples. Most of them come too early and reach no thread.
 */
static uint64_t tick_period_ns(const struct race_run *run)
{
	uint64_t share = run->region->settings.budget_ppm / TICKS_PART;
	uint64_t period = share ? round_price_ns(run) * 1000000 / share : TICK_MOST_NS;

	period += period / TICK_ODD_PART;
	period = period < TICK_LEAST_NS ? TICK_LEAST_NS : period;
	return period > TICK_MOST_NS ? TICK_MOST_NS : period;
}

/* The period of the samples for a young process, which may not live long. */
static uint64_t fast_period_ns(const struct race_run *run)
{
	uint64_t period = run->ticks.price_ns * TICK_FAST_PRICES;

	return period < TICK_LEAST_NS ? TICK_LEAST_NS : period;
}

void race_ticks_settle(struct race_run *run)
{
	struct race_settings *set = &run->region->settings;
	uint64_t period = tick_period_ns(run);

	for (int i = 0; i < run->ticks.count && set->clock_count < RACE_CLOCKS; i++) {
		uint64_t *id = &set->clock_ids[set->clock_count];

		set->clock_fds[set->clock_count] = run->ticks.fds[i];
		set->clock_count += !sys_ioctl(run->ticks.fds[i], PERF_EVENT_IOC_ID, (uintptr_t)id);
	}
	set->tick_ppm = round_price_ns(run) * 1000000 / period;
	race_ticks_pace(&run->ticks, set->pid ? period : fast_period_ns(run));
}

/* A process in a container cannot copy them: it does not see trapline. */
void race_cpus_settle(struct race_run *run)
{
	const struct race_settings *set = &run->region->settings;

	if (set->pid && !race_is_in_first_namespace((pid_t)set->pid))
		race_cpus_close(&run->cpus);
	else
		race_cpus_open(&run->cpus, &run->ticks.maps, &run->region->settings);
}

void race_pace(const struct race_cli_settings *set, struct race_run *run)
{
	uint64_t count = __atomic_load_n(&run->region->process_count, __ATOMIC_RELAXED);
	uint64_t now = clock_now_ns();

	if (!run->region->settings.has_ticks || set->pid)
		return;
	if (count != run->known_processes && now > run->fast_until_ns + YOUNG_REST_NS)
		run->fast_until_ns = now + YOUNG_NS;
	run->known_processes = count;
	race_ticks_pace(&run->ticks,
			now < run->fast_until_ns ? fast_period_ns(run) : tick_period_ns(run));
}

/*
 * A sweep and a replay find by traps. Without privilege the processes have clocks of their own,
 * which cost more at each switch of a thread and find the same. All but a sweep and a replay run
 * once.
 */
static void prepare_ticks(const struct race_cli_settings *set, struct race_run *run)
{
	struct race_settings *shared = &run->region->settings;

	if (set->sweep || set->replay)
		return;
	int err = race_ticks_open(&run->ticks);
	if (!err) {
		race_ticks_settle(run);
		err = race_ticks_start(&run->ticks, shared->gate_magic, getuid());
	}
	shared->has_ticks = !err;
	if (!err) {
		race_cpus_settle(run);
		return;
	}
	close_ticks(run);
}

int race_command_start(const struct race_cli_settings *set, struct race_run *run)
{
	if (set->outside)
		return race_outside_command(set, run);
	prepare_ticks(set, run);
	race_members_open(&run->members, run->memory.data_fd, run->ticks.maps.members_fd);
	run->region->run++;
	int status = agent_command_start(COMMAND, set->command, "race", &run->memory, &run->pid);
	run->began = status ? 0 : race_member_start(run->pid);
	return status;
}

void race_others_signal(const struct race_run *run, int signal)
{
	const struct race_region *region = run->region;

	for (uint32_t i = 0; i < RACE_PROCESSES; i++) {
		const struct race_process *p = &region->processes[i];
		pid_t pid = __atomic_load_n(&p->pid, __ATOMIC_RELAXED);

		if (p->state >= RACE_PROCESS_LIVE && p->run == region->run && pid != run->pid)
			race_members_signal(&run->members, pid, run->began, signal);
	}
}
