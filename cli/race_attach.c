// SPDX-License-Identifier: MIT
/*
 * race_attach.c - `trapline race -p`: a process that runs already.
 *
 * The agent is loaded into it and opens its events in all threads; nobody is stopped but one thread,
 * for some milliseconds. However we end, the process ends the search by itself: a thread that
 * finds at its next tick that we are done, or gone, takes everything away.
 */
#include "cli/agent_start.h"
#include "cli/clock.h"
#include "cli/cmd.h"
#include "cli/inject.h"
#include "cli/program.h"
#include "cli/race.h"

#include <trapline/trapline.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define COMMAND "race"
#define PRICE_TRIES 8

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

int race_price(uint64_t *trap_ns)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *ev = NULL;
	struct trapline *self = NULL;
	uint64_t best = UINT64_MAX;
	char why[600];

	opts.callback = on_price;
	opts.scope = TRAPLINE_CALLER;
	int err = trapline_open(0, NULL, &self);
	if (!err)
		err = trapline_break(self, (uintptr_t)price_here, &opts, &ev);
	if (err)
		trapline_explain(err, why, sizeof(why));
	for (int i = 0; !err && i < PRICE_TRIES; i++) {
		uint64_t start = now_ns();
		price_here();
		uint64_t took = now_ns() - start;
		best = took < best ? took : best;
	}
	trapline_event_close(ev);
	trapline_close(self);
	if (err)
		return cli_wrong(COMMAND, "nothing could be found here, since no hardware breakpoint "
				 "can be had: %s", why);
	if (!hits)
		return cli_wrong(COMMAND, "nothing could be found here: a breakpoint was set and did "
				 "not stop anybody; see `trapline check`");
	*trap_ns = best;
	return CLI_OK;
}

static int say_no_room(const char *what, const struct race_process *row, pid_t pid)
{
	if (row->step == RACE_STEP_BREAK || row->step == RACE_STEP_WATCH) {
		if (row->error == -ENOSPC)
			return cli_wrong(COMMAND, "process %d: all debug registers of one of its threads "
					 "are taken: x86-64 has 4, held by a debugger or another trapline "
					 "(trapline watch, break, race) or perf record -e mem:. End one of "
					 "them", pid);
	}
	if (row->step == RACE_STEP_DESCRIPTORS)
		return cli_wrong(COMMAND, "process %d: its hard limit of descriptors is lower than its "
				 "threads need, 5 each: raise it (prlimit --nofile)", pid);
	return cli_wrong(COMMAND, "process %d cannot be searched: %s: %s", pid, what,
			 strerror(-row->error));
}

static int say_refusal(const struct race_run *run, int result)
{
	const struct race_process *row = &run->region->processes[0];

	if (result == -EBUSY)
		return cli_wrong(COMMAND, "process %d is being searched by another trapline race: end "
				 "that one first", run->pid);
	if (row->step && row->step < RACE_STEPS)
		return say_no_room(race_step_names[row->step], row, run->pid);
	return cli_wrong(COMMAND, "process %d: the agent could not begin: %s", run->pid,
			 strerror(-result));
}

/* What can be known before anything is loaded. */
static int check_process(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (kill(pid, 0) && errno == ESRCH)
		return cli_wrong(COMMAND, "no process %d", pid);
	if (program_is_go(path))
		return cli_wrong(COMMAND, "process %d is written in Go, whose runtime takes all signals "
				 "for its own: build it with -race instead", pid);
	return CLI_OK;
}

static int open_memory(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* An address of the program that stays mapped as long as it is the same one. */
static uint64_t first_mapping(pid_t pid)
{
	uint64_t start;
	uint64_t end;

	return program_mapping(pid, NULL, 0, &start, &end) ? start : 0;
}

static void unblock(struct race_run *run)
{
	int n = 0;

	run->unblocked = calloc(INJECT_THREADS_MAX, sizeof(*run->unblocked));
	if (run->unblocked)
		n = inject_unblock_trap(run->pid, run->unblocked, INJECT_THREADS_MAX);
	run->unblocked_count = n > 0 ? (size_t)n : 0;
}

/* It is told of our end by a pipe that has no other reader. */
static void hold_pipe(struct race_run *run)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", run->pid, run->region->hangup_fd);
	run->hangup_fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (run->hangup_fd >= 0 && (fstat(run->hangup_fd, &st) || !S_ISFIFO(st.st_mode))) {
		close(run->hangup_fd);
		run->hangup_fd = -1;
	}
}

static int begin_ticks(struct race_run *run)
{
	const struct race_region *region = run->region;

	hold_pipe(run);
	if (!region->settings.has_ticks)
		return CLI_OK;
	int err = race_ticks_start(&run->ticks, region->gate_at, region->gate_magic);
	return err ? cli_wrong(COMMAND, "process %d: no clock of the CPUs can be started: %s",
			       run->pid, strerror(-err)) : CLI_OK;
}

int race_attach_start(const struct race_cli_settings *set, struct race_run *run)
{
	const struct agent_share share = {
		.region = run->region,
		.bytes = sizeof(*run->region),
		.filled = offsetof(struct race_region, records),
	};
	int result = 0;

	run->pid = set->pid;
	int status = check_process(run->pid);
	if (status)
		return status;
	run->memory_fd = open_memory(run->pid);
	run->probe = first_mapping(run->pid);
	race_look(run);
	unblock(run);
	run->hangup_fd = -1;
	int no_ticks = race_ticks_open(&run->ticks);
	run->region->settings.has_ticks = !no_ticks;
	run->region->settings.pid = run->pid;
	if (no_ticks) {
		race_cpus_close(&run->cpus);
	} else {
		race_ticks_settle(run);
		race_cpus_settle(run);
	}
	status = agent_call(COMMAND, run->pid, "race", &share, &result);
	if (!status && result)
		status = say_refusal(run, result);
	else if (!status)
		status = begin_ticks(run);
	if (status)
		inject_block_trap(run->pid, run->unblocked, run->unblocked_count);
	else
		race_note_cpus(run->pid);
	if (!status && no_ticks)
		cli_note(COMMAND, "a clock in each thread, which costs some microseconds at each "
			 "switch: those of the CPUs cannot be had without CAP_BPF and CAP_PERFMON, or in "
			 "a pid namespace (%s)", strerror(-no_ticks));
	return status;
}

/* The memory of a program that has ended, or was replaced by exec, reads as empty. */
bool race_attach_is_over(const struct race_run *run)
{
	char byte;

	return run->memory_fd >= 0 && pread(run->memory_fd, &byte, 1, (off_t)run->probe) == 0;
}

static bool has_ended(const struct race_run *run)
{
	return __atomic_load_n(&run->region->processes[0].state, __ATOMIC_SEQ_CST) ==
	       RACE_PROCESS_ENDED;
}

/* One of its threads takes all away when it runs next. Where all sleep, we have to ask for it. */
static bool end_search(struct race_run *run)
{
	struct timespec pause = { 0, 1000000 };
	int result = 0;

	for (int i = 0; i < RACE_LAST_TICK_MS && !has_ended(run); i++)
		nanosleep(&pause, NULL);
	if (run->hangup_fd >= 0)
		close(run->hangup_fd);
	for (int i = 0; i < RACE_LAST_TICK_MS && !has_ended(run); i++)
		nanosleep(&pause, NULL);
	if (!has_ended(run) && !race_attach_is_over(run))
		agent_call(COMMAND, run->pid, "race-end", NULL, &result);
	return has_ended(run);
}

void race_attach_end(struct race_run *run)
{
	__atomic_store_n(&run->region->stop, 1u, __ATOMIC_SEQ_CST);
	if (race_attach_is_over(run)) {
		cli_note(COMMAND, "process %d has ended, or runs another program now (exec)", run->pid);
	} else if (end_search(run)) {
		inject_block_trap(run->pid, run->unblocked, run->unblocked_count);
		cli_note(COMMAND, "process %d goes on by itself. What stays in it: the agent, loaded "
			 "once, and its handler of SIGTRAP, which has nothing to do", run->pid);
	} else if (!race_attach_is_over(run)) {
		cli_note(COMMAND, "process %d: nobody is held any more, but its events are closed when "
			 "one of its threads runs next", run->pid);
	}
	free(run->unblocked);
	if (run->memory_fd >= 0)
		close(run->memory_fd);
}
