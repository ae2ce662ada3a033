// SPDX-License-Identifier: MIT
/*
 * at_step.c - see at_step.h. x86-64.
 *
 * A step is what the processor's trap flag tells: an instruction, or one round of a repeated one.
 * The kernel reports stops in between that are none: a signal on its way, the entry of its handler,
 * the end of a group's stop.
 */
#include "cli/at_step.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#define TRAP_FLAG 0x100u
#define PREFIXES_MAX 4

enum stop { STOP_STEP, STOP_SIGNAL, STOP_NOTHING, STOP_OVER };

/* Aligned: the next page may not be there. What cannot be read is no instruction either. */
static uint8_t byte_at(pid_t tid, uint64_t address)
{
	long word = ptrace(PTRACE_PEEKTEXT, tid, (void *)(address & ~7ull), NULL);

	return (uint8_t)((uint64_t)word >> address % 8 * 8);
}

static bool is_pushf(pid_t tid, uint64_t ip)
{
	uint8_t byte = byte_at(tid, ip);

	for (int i = 0; i < PREFIXES_MAX && (byte == 0x66 || byte >> 4 == 4); i++)
		byte = byte_at(tid, ++ip);
	return byte == 0x9c;
}

static bool is_syscall(pid_t tid, uint64_t ip)
{
	return byte_at(tid, ip) == 0x0f && byte_at(tid, ip + 1) == 0x05;
}

/*
 * Two instructions show the program the flag that it is stepped by: pushf, and syscall, which leaves
 * the flags in r11. Were it kept, a later popf would trap where nobody steps any more.
 */
static int hide_trap_flag(pid_t tid, bool was_pushf, uint64_t after_syscall)
{
	struct user_regs_struct r;

	if (!was_pushf && !after_syscall)
		return 0;
	if (ptrace(PTRACE_GETREGS, tid, NULL, &r))
		return -errno;
	if (was_pushf) {
		errno = 0;
		long word = ptrace(PTRACE_PEEKDATA, tid, (void *)r.rsp, NULL);
		if (errno || ptrace(PTRACE_POKEDATA, tid, (void *)r.rsp,
				    (void *)((uint64_t)word & ~(uint64_t)TRAP_FLAG)))
			return -errno;
	} else if (r.rip == after_syscall) {
		/* Elsewhere: it returned from a handler, and r11 is what was interrupted. */
		r.r11 &= ~(uint64_t)TRAP_FLAG;
		if (ptrace(PTRACE_SETREGS, tid, NULL, &r))
			return -errno;
	}
	return 0;
}

/*
 * Lets it go and waits for its next stop. A thread that executes a program takes the process's id, and
 * who waits for the old one is not woken: so for any.
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
	if (info.si_code == TRAP_TRACE || info.si_code == TRAP_BRKPT) /* the latter after a call */
		return STOP_STEP;
	/* Before the first instruction of a handler; else the program's own: int3, a perf event. */
	return info.si_code == SIGTRAP ? STOP_NOTHING : STOP_SIGNAL;
}

int at_step(pid_t pid, pid_t tid, struct at_steps *steps)
{
	int signal = 0;

	while (steps->made < steps->wanted) {
		struct user_regs_struct r;
		int status;

		if (ptrace(PTRACE_GETREGS, tid, NULL, &r))
			return -errno;
		bool was_pushf = is_pushf(tid, r.rip);
		uint64_t after_syscall = is_syscall(tid, r.rip) ? r.rip + 2 : 0;
		int err = step_and_wait(pid, &tid, signal, &status);
		if (err)
			return err;
		enum stop stop = kind_of_stop(pid, tid, status, steps);
		signal = stop == STOP_SIGNAL ? WSTOPSIG(status) : 0;
		if (stop == STOP_OVER) {
			steps->is_over = true;
			return 0;
		}
		if (stop != STOP_STEP)
			continue;
		steps->made++;
		err = hide_trap_flag(tid, was_pushf, after_syscall);
		if (err)
			return err;
	}
	return 0;
}
