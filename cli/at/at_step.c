/* SPDX-License-Identifier: MIT */
/*
 * at_step.c - see at_step.h.
 *
 * A step is what the processor reports as one: an instruction, or on x86-64 one round of a repeated
 * one. The kernel also reports stops that are not steps: a pending signal, the entry of its
 * handler, the end of a group stop.
 *
 * Most instructions need no step: see point_window.h.
 */
#include "cli/at/at_step.h"

#include "cli/at/at_regs.h"
#include "point/host/point_window.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
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

static enum stop kind_of_stop(pid_t pid, pid_t tid, int status, struct at_steps *steps,
			      const struct at_look *look)
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
	if (info.si_code == SI_USER && info.si_pid == pid && at_look_is_step(tid, look))
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

static bool is_abandoned(void)
{
	return asked_by && getppid() != asked_by;
}

struct stepping {
	pid_t pid;
	pid_t tid;
	struct at_steps *steps;
	struct point_window *window;
	bool after_step;
	bool can_end;
	int signal; /* for the thread, when it continues */
	struct at_look look;
};

static void take_over(struct stepping *s, int status, const struct at_look *look, enum stop *stop)
{
	*stop = kind_of_stop(s->pid, s->tid, status, s->steps, look);
	s->signal = *stop == STOP_SIGNAL ? WSTOPSIG(status) : 0;
	s->after_step = *stop == STOP_STEP;
	s->steps->is_over = *stop == STOP_OVER;
}

/* Many at a time, where they can be; the last one is a step. */
static int run_window(struct stepping *s)
{
	struct at_steps *steps = s->steps;
	struct point_window_run run = { .pid = s->pid,
					.tid = s->tid,
					.most = steps->wanted - steps->made - 1,
					.ends = is_abandoned };
	const struct at_look none = { 0 };
	enum stop stop;

	if (!s->after_step || s->signal || !run.most ||
	    (!s->window && run.most < POINT_WINDOW_LEAST))
		return 0;
	int err = point_window_run(&s->window, &run);
	s->tid = run.tid;
	steps->made += run.made;
	steps->is_let_go |= run.is_let_go;
	if (run.has_status)
		take_over(s, run.status, &none, &stop);
	return err;
}

/* A signal that came in the window arrives with the next step. Behind the last one it waits. */
static int pass_held(struct stepping *s)
{
	const bool goes_on = s->steps->made < s->steps->wanted;
	siginfo_t info;

	while (point_window_held(s->window, &info)) {
		if (!goes_on && info.si_code < 0)
			syscall(SYS_rt_tgsigqueueinfo, s->pid, s->tid, info.si_signo, &info);
		else if (!goes_on)
			syscall(SYS_tgkill, s->pid, s->tid, info.si_signo);
		else if (ptrace(PTRACE_SETSIGINFO, s->tid, NULL, &info))
			return -errno;
		s->signal = goes_on ? info.si_signo : 0;
		if (goes_on)
			break;
	}
	return 0;
}

static int make_step(struct stepping *s)
{
	struct at_look *look = &s->look;
	enum stop stop;
	int status;
	int err = s->after_step && !s->signal ? at_look_instead(s->tid) : 0;

	if (err > 0)
		s->steps->made++;
	if (err)
		return err < 0 ? err : 0;
	err = point_window_before_step(s->window);
	if (!err)
		err = at_look(s->tid, look);
	if (!err)
		err = step_and_wait(s->pid, &s->tid, s->signal, &status);
	if (err)
		return err;
	take_over(s, status, look, &stop);
	/* At another stop the SIGTRAP of the step may be on its way. */
	s->can_end = stop == STOP_STEP && !look->after_syscall;
	if (stop != STOP_STEP)
		return 0;
	s->steps->made++;
	err = at_look_hide(s->tid, look);
	return err ? err : pass_held(s);
}

int at_step(pid_t pid, pid_t tid, struct at_steps *steps)
{
	struct stepping s = { .pid = pid, .tid = tid, .steps = steps, .can_end = true };
	int err = 0;

	while (!err && !steps->is_over && steps->made < steps->wanted) {
		if (s.can_end && is_abandoned())
			err = -ECHILD;
		if (!err)
			err = run_window(&s);
		if (!err && !steps->is_over)
			err = make_step(&s);
	}
	steps->is_let_go |= point_window_end(s.window, steps->is_over);
	return err;
}
