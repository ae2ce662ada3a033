/* SPDX-License-Identifier: MIT */
/* at_running.c - see at_running.h. */
#include "cli/at/at_running.h"

#include "base/clock.h"
#include "cli/launch/program.h"
#include "cli/message.h"
#include "cli/observe/session.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define THREADS_MAX 4096
#define STANDS_NS 2000000000u
#define STEP_NS 200000

int at_running_open(const char *command, pid_t pid, struct symbols **out)
{
	const struct session session = { .name = command, .pid = pid };
	int status = session_check_target(command, pid, NULL);

	if (!status)
		status = session_open_symbols(&session, out);
	return status ? status : session_check_width(&session, *out, "a point");
}

static bool all_stand(pid_t pid)
{
	static pid_t tids[THREADS_MAX];
	size_t n = program_threads(pid, tids, THREADS_MAX);

	for (size_t i = 0; i < n; i++) {
		char state = program_thread_state(pid, tids[i]);

		if (state && !strchr("TtZX", state))
			return false;
	}
	return n > 0;
}

int at_running_hold(const char *command, pid_t pid, struct act_guard *guard)
{
	const struct timespec step = { 0, STEP_NS };
	uint64_t end = clock_now_ns() + STANDS_NS;

	if (act_is_stopped(pid, pid))
		return cli_wrong(command,
				 "process %d is stopped already, by a signal or a debugger: end "
				 "that first (kill -CONT %d)",
				 pid, pid);
	int err = act_guard_start(guard, pid);
	if (!err && kill(pid, SIGSTOP))
		err = -errno;
	while (!err && !all_stand(pid)) {
		nanosleep(&step, NULL);
		if (clock_now_ns() > end)
			err = -ETIMEDOUT;
	}
	if (!err)
		return CLI_OK;
	kill(pid, SIGCONT);
	return cli_wrong(command, "cannot stop process %d: %s", pid,
			 err == -ETIMEDOUT ? "a thread of it waits in the kernel" : strerror(-err));
}
