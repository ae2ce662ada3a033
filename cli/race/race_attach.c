/* SPDX-License-Identifier: MIT */
/*
 * race_attach.c - `trapline race -p`: a process that runs already.
 *
 * The agent is loaded into the process and opens its events in all threads. One thread is
 * stopped for some milliseconds, the others run on. The process ends the search by
 * itself, however trapline ends: a thread whose next sample finds that trapline is done,
 * or gone, removes everything.
 */
#include "cli/race/race_attach.h"

#include "base/clock.h"
#include "base/own_fd.h"
#include "cli/inject/inject_opened.h"
#include "cli/launch/agent_start.h"
#include "cli/launch/program.h"
#include "cli/message.h"
#include "record/race_words.h"

#include <trapline/trapline.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define COMMAND "race"
#define THREADS_MOST 4096u
#define END_MS 1000 /* the agent looks all 20 ms, if it has a CPU */

static int say_step(const struct race_process *row, pid_t pid)
{
	bool is_register = row->step == RACE_STEP_BREAK || row->step == RACE_STEP_WATCH;

	if (is_register && row->error == -ENOSPC)
		return cli_wrong(
			COMMAND,
			"cannot search process %d: all 4 debug registers of one of its "
			"threads are taken; end the debugger, trapline or perf that uses them",
			pid);
	if (row->step == RACE_STEP_DESCRIPTORS)
		return cli_wrong(COMMAND,
				 "cannot search process %d: its hard limit of file descriptors is "
				 "too low, 5 per thread are needed; raise it with prlimit --nofile",
				 pid);
	return cli_wrong(COMMAND, "cannot search process %d: %s: %s", pid,
			 race_step_name(row->step), strerror(-row->error));
}

static int attach_say_refusal(const struct race_run *run, int result)
{
	struct race_process copy = run->region->processes[0];
	const struct race_process *row = &copy; /* the process can change its own in the meantime */

	if (result == -EBUSY)
		return cli_wrong(COMMAND,
				 "cannot search process %d: another trapline race searches it; "
				 "end that one first",
				 run->pid);
	if (row->step && row->step < RACE_STEPS)
		return say_step(row, run->pid);
	return cli_wrong(COMMAND, "cannot search process %d: the agent did not start: %s", run->pid,
			 strerror(-result));
}

/*
 * A copy of the descriptor that the process names, if it is of a pipe without a name. Such a pipe
 * can be opened once more without any effect on others, no matter what the process means by the
 * number.
 */
static int copy_pipe(pid_t pid, int number)
{
	struct stat st;
	char path[64];
	char name[32] = "";

	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int fd = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
	if (pidfd >= 0)
		close(pidfd);
	if (fd < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!fstat(fd, &st) && S_ISFIFO(st.st_mode) && readlink(path, name, sizeof(name) - 1) > 0 &&
	    !strncmp(name, "pipe:[", 6))
		return fd;
	close(fd);
	return -1;
}

/* The same in a table that the process cannot change, for a thread of Trapline: by its name. */
static int open_pipe(const struct race_run *run, int number)
{
	static pid_t tids[THREADS_MOST];
	const size_t count = program_threads(run->pid, tids, THREADS_MOST);
	char wanted[40];

	snprintf(wanted, sizeof(wanted), "pipe:[%" PRIu64 "]", run->region->hangup_inode);
	for (size_t i = 0; i < count; i++) {
		char name[40] = "";
		char path[80];

		snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%d", run->pid, tids[i], number);
		if (readlink(path, name, sizeof(name) - 1) > 0 && !strcmp(name, wanted))
			return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	}
	return -1;
}

/* The kernel signals the end of trapline by a pipe that has no other reader. */
static void hold_pipe(struct race_run *run)
{
	const int number = __atomic_load_n(&run->region->hangup_fd, __ATOMIC_RELAXED);
	char path[64];

	run->hangup_fd = -1;
	if (number >= OWN_FD_FAR) {
		run->hangup_fd = open_pipe(run, number & ~OWN_FD_FAR);
		return;
	}
	int copy = copy_pipe(run->pid, number);
	if (copy < 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", copy);
	run->hangup_fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	close(copy);
}

/* The user that started the process, which decides what may send it a signal. */
static uid_t user_of(pid_t pid)
{
	char text[128];

	return program_status(pid, pid, "Uid", text, sizeof(text)) ?
		       (uid_t)strtoul(text, NULL, 10) :
		       getuid();
}

static int begin_ticks(struct race_run *run)
{
	const struct race_settings *set = &run->region->settings;

	hold_pipe(run);
	if (!set->has_ticks)
		return CLI_OK;
	race_members_open(&run->members, run->memory.data_fd, run->ticks.maps.members_fd);
	race_members_add(&run->members, run->pid);
	int err = race_ticks_start(&run->ticks, set->gate_magic, user_of(run->pid));
	return err ? cli_wrong(COMMAND,
			       "cannot search process %d: cannot start the clocks of the "
			       "CPUs: %s",
			       run->pid, strerror(-err)) :
		     CLI_OK;
}

int race_attach_start(const struct race_cli_settings *set, struct race_run *run)
{
	const struct agent_share share = {
		.region = run->region,
		.bytes = sizeof(*run->region),
		.filled = offsetof(struct race_region, records),
		.data_fd = run->memory.data_fd,
		.has_own_files = true,
	};
	int result = 0;
	uint64_t end;

	if (set->outside)
		return race_outside_attach(set, run);
	run->pid = set->pid;
	int status = search_check_process(&race_search, run->pid);
	if (status)
		return status;
	run->memory_fd = program_open_memory(run->pid);
	program_mapping(run->pid, NULL, 0, &run->probe, &end);
	race_look(run);
	inject_opened_find(&run->opened, run->pid);
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
		status = attach_say_refusal(run, result);
	else if (!status)
		status = begin_ticks(run);
	if (!status) {
		inject_opened_begin(&run->opened, run->pid);
		race_note_cpus(run->pid);
	}
	if (!status && no_ticks)
		cli_note(COMMAND,
			 "a clock in each thread costs some microseconds per thread switch; clocks "
			 "of the CPUs need CAP_BPF and CAP_PERFMON outside a pid namespace (%s)",
			 strerror(-no_ticks));
	return status;
}

bool race_attach_is_over(const struct race_run *run)
{
	return program_is_gone(run->memory_fd, run->probe);
}

static bool attach_has_ended(const struct race_run *run)
{
	return __atomic_load_n(&run->region->processes[0].state, __ATOMIC_SEQ_CST) ==
	       RACE_PROCESS_ENDED;
}

static bool ends_soon(const struct race_run *run)
{
	struct timespec pause = { 0, 1000000 };

	for (int i = 0; i < END_MS && !attach_has_ended(run); i++)
		nanosleep(&pause, NULL);
	return attach_has_ended(run);
}

/*
 * The next thread that runs removes everything: one of the program, or that of the agent, which
 * looks all 20 ms. The closed pipe is a signal, which would end a call of the program with EINTR.
 */
static bool attach_end_search(struct race_run *run)
{
	const bool is_ended = ends_soon(run);

	if (run->hangup_fd >= 0)
		close(run->hangup_fd);
	return is_ended || ends_soon(run);
}

void race_attach_end(struct race_run *run)
{
	if (run->outside.engine) {
		race_outside_detach(run);
		return;
	}
	__atomic_store_n(&run->region->stop, 1u, __ATOMIC_SEQ_CST);
	run->was_stopped |= program_is_stopped(run->pid);
	if (race_attach_is_over(run)) {
		cli_note(COMMAND, "process %d has ended, or has executed another program",
			 run->pid);
	} else if (attach_end_search(run)) {
		inject_opened_end(&run->opened, run->pid);
		cli_note(COMMAND,
			 "detached from process %d; the agent and an idle SIGTRAP handler stay "
			 "loaded",
			 run->pid);
	} else if (!race_attach_is_over(run)) {
		cli_note(COMMAND,
			 "detached from process %d; no thread is stalled, and the remaining events "
			 "close when one of its threads next runs",
			 run->pid);
	}
	inject_opened_free(&run->opened);
	if (run->memory_fd >= 0)
		close(run->memory_fd);
}
