/* SPDX-License-Identifier: MIT */
/*
 * at_step.c - see at_step.h.
 *
 * A step is what the processor reports as one: an instruction, or on x86-64 one round of a repeated one. The kernel also reports stops that are not steps: a pending signal, the
 * entry of its handler, the end of a group stop.
 */
#include "cli/at/at_step.h"

#include "cli/at/at_regs.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum stop {
	STOP_STEP,
	STOP_SIGNAL,
	STOP_NOTHING,
	STOP_OVER
};

/*
 * Resumes the thread and waits for its next stop. A thread that executes a program takes
 * the process's id, and waitpid() for the old id would not return: so it waits for any.
 */
static int step_and_wait(pid_t pid, pid_t *tid, int signal, int *status)
{
	if (ptrace(PTRACE_SINGLESTEP, *tid, NULL, (void *)(intptr_t)signal) && errno != ESRCH)
		return -errno;
	for (;;) {
		pid_t got = waitpid(-1, status, __WALL);

		if (got < 0 && errno != EINTR)
			return -errno;
		if (got != *tid && got != pid)
			continue;
		*tid = got;
		return 0;
	}
}

static enum stop kind_of_stop(pid_t pid, pid_t tid, int status, struct at_steps *steps)
{
	int event = status >> 16;
	siginfo_t info;

	if (!WIFSTOPPED(status)) {
		steps->is_reaped = tid == pid;
		steps->status = status;
		return STOP_OVER;
	}
	if (event == PTRACE_EVENT_EXIT || event == PTRACE_EVENT_EXEC)
		return STOP_OVER;
	if (event == PTRACE_EVENT_STOP)
		steps->is_let_go = WSTOPSIG(status) == SIGTRAP;
	if (event)
		return STOP_NOTHING;
	if (WSTOPSIG(status) != SIGTRAP || ptrace(PTRACE_GETSIGINFO, tid, NULL, &info))
		return STOP_SIGNAL;
	if (info.si_code == TRAP_TRACE ||
	    info.si_code == TRAP_BRKPT) /* the second after a system call */
		return STOP_STEP;
	/*
	 * The kernel stops before the first instruction of a handler; other codes are the
	 * program's own: int3, a perf event.
	 */
	return info.si_code == SIGTRAP ? STOP_NOTHING : STOP_SIGNAL;
}

static pid_t asked_by; /* 0: any */

void at_steps_for(pid_t parent)
{
	asked_by = parent;
}

int at_step(pid_t pid, pid_t tid, struct at_steps *steps)
{
	bool can_end = true;
	int signal = 0;

	while (steps->made < steps->wanted) {
		if (can_end && asked_by && getppid() != asked_by)
			return -ECHILD;

		struct at_look look = { 0 };
		int status;
		int err = at_look(tid, &look);

		if (!err)
			err = step_and_wait(pid, &tid, signal, &status);
		if (err)
			return err;
		enum stop stop = kind_of_stop(pid, tid, status, steps);
		signal = stop == STOP_SIGNAL ? WSTOPSIG(status) : 0;
		/* At another stop the SIGTRAP of the step may be on its way. */
		can_end = stop == STOP_STEP && !look.after_syscall;
		if (stop == STOP_OVER) {
			steps->is_over = true;
			return 0;
		}
		if (stop != STOP_STEP)
			continue;
		steps->made++;
		err = at_look_hide(tid, &look);
		if (err)
			return err;
	}
	return 0;
}
