/* SPDX-License-Identifier: MIT */
/*
 * window_call.c - system calls in a window.
 *
 * They run in place, with all registers of the program. Those that make a thread or a process, end
 * one, or return from a signal end the window before. So does one that may block, unless the window
 * was asked to continue. Then the thread executes the program's own instruction, with the program's
 * own signal mask, and the trap flag brings it back. A handler that comes in the meantime sees what
 * it sees natively, and may leave by a jump. Where the trap flag would be seen, the call runs in
 * place.
 *
 * The signal mask is the window's own affair, and so are the actions of the signals that it has
 * taken.
 *
 * Compiled without vector registers, as window_run.c.
 */
#include "base/general_regs.h"

#include "code/window/window_call.h"

#include "base/sys.h"

#define SIGNAL_SET_BYTES 8

/* Never waits for another thread, another process or a device. */
static int is_quick(uint64_t number)
{
	switch (number) {
	case SYS_access:
	case SYS_alarm:
	case SYS_arch_prctl:
	case SYS_brk:
	case SYS_capget:
	case SYS_chdir:
	case SYS_clock_getres:
	case SYS_clock_gettime:
	case SYS_dup:
	case SYS_epoll_create1:
	case SYS_eventfd2:
	case SYS_faccessat:
	case SYS_faccessat2:
	case SYS_fchdir:
	case SYS_fcntl:
	case SYS_fstat:
	case SYS_futex:
	case SYS_get_robust_list:
	case SYS_getcpu:
	case SYS_getcwd:
	case SYS_getdents64:
	case SYS_getegid:
	case SYS_geteuid:
	case SYS_getgid:
	case SYS_getitimer:
	case SYS_getpgrp:
	case SYS_getpid:
	case SYS_getppid:
	case SYS_getpriority:
	case SYS_getrandom:
	case SYS_getresgid:
	case SYS_getresuid:
	case SYS_getrlimit:
	case SYS_getrusage:
	case SYS_gettid:
	case SYS_gettimeofday:
	case SYS_getuid:
	case SYS_ioctl:
	case SYS_lseek:
	case SYS_lstat:
	case SYS_madvise:
	case SYS_mmap:
	case SYS_mprotect:
	case SYS_mremap:
	case SYS_munmap:
	case SYS_newfstatat:
	case SYS_pipe:
	case SYS_pipe2:
	case SYS_prctl:
	case SYS_prlimit64:
	case SYS_readlink:
	case SYS_readlinkat:
	case SYS_sched_getaffinity:
	case SYS_rt_sigaction:
	case SYS_rt_sigpending:
	case SYS_set_robust_list:
	case SYS_set_tid_address:
	case SYS_setitimer:
	case SYS_sigaltstack:
	case SYS_stat:
	case SYS_statx:
	case SYS_sysinfo:
	case SYS_time:
	case SYS_times:
	case SYS_umask:
	case SYS_uname:
		return 1;
	default:
		return 0;
	}
}

static int ends_window(uint64_t number)
{
	switch (number) {
	case SYS_clone:
	case SYS_clone3:
	case SYS_execve:
	case SYS_execveat:
	case SYS_exit:
	case SYS_exit_group:
	case SYS_fork:
	case SYS_rseq:
	case SYS_rt_sigreturn:
	case SYS_vfork:
		return 1;
	default:
		return 0;
	}
}

/* A futex that wakes does not wait; fcntl and ioctl may, for locks and terminals. */
static int may_block(const struct window_area *a)
{
	const uint64_t number = a->regs.r[INSN_RAX];

	if (number == SYS_futex)
		return (a->regs.r[INSN_RSI] & 0x7f) != 1 && (a->regs.r[INSN_RSI] & 0x7f) != 4;
	if (number == SYS_fcntl)
		return a->regs.r[INSN_RSI] == 7 || a->regs.r[INSN_RSI] == 38;
	return !is_quick(number);
}

/* ---- the signal mask, and actions of signals that are Trapline's ---- */

static long change_mask(struct window_area *a)
{
	const uint64_t before = a->guest_mask;
	uint64_t set = 0;

	if (a->regs.r[INSN_RSI]) {
		if (window_read(&set, a->regs.r[INSN_RSI], sizeof(set)) != sizeof(set))
			return -EFAULT;
		set &= ~(WINDOW_SIGNAL_BIT(SIGKILL) | WINDOW_SIGNAL_BIT(SIGSTOP));
		switch ((int)a->regs.r[INSN_RDI]) {
		case SIG_BLOCK:
			a->guest_mask |= set;
			break;
		case SIG_UNBLOCK:
			a->guest_mask &= ~set;
			break;
		case SIG_SETMASK:
			a->guest_mask = set;
			break;
		default:
			return -EINVAL;
		}
	}
	if (a->regs.r[INSN_RDX] &&
	    window_read((void *)(uintptr_t)a->regs.r[INSN_RDX], (uint64_t)(uintptr_t)&before,
			sizeof(before)) != sizeof(before))
		return -EFAULT;
	return 0;
}

int window_call_instead(struct window_area *a, long *result)
{
	const uint64_t number = a->regs.r[INSN_RAX];
	int is_done = 0;

	if (number == SYS_rt_sigprocmask && a->regs.r[INSN_R10] == SIGNAL_SET_BYTES) {
		*result = change_mask(a);
		is_done = 1;
	} else if (number == SYS_rt_sigaction) {
		window_vectors_save(a);
		is_done = window_action_call(a, result);
		window_vectors_restore(a);
	}
	return is_done;
}

/* A SIGTRAP that is blocked would kill. */
int window_call_steps(const struct window_area *a)
{
	const uint64_t number = a->regs.r[INSN_RAX];

	return a->request.may_block && !ends_window(number) && may_block(a) &&
	       !(a->guest_mask & WINDOW_SIGNAL_BIT(SIGTRAP)) && a->left + (int64_t)a->budget > 0;
}

enum window_reason window_call_before(struct window_area *a)
{
	const uint64_t number = a->regs.r[INSN_RAX];

	if (ends_window(number))
		return WINDOW_SYSTEM_CALL;
	if (!may_block(a))
		return WINDOW_RUNS;
	if (!a->request.may_block)
		return WINDOW_BLOCKING;
	if (window_signal_waits(a))
		return WINDOW_SIGNAL;
	a->is_unmasked = 1;
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &a->guest_mask, NULL, SIGNAL_SET_BYTES);
	return WINDOW_RUNS;
}

void window_call_after(struct window_area *a)
{
	const uint64_t blocked = WINDOW_BLOCKED;

	if (!a->is_unmasked)
		return;
	a->is_unmasked = 0;
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, &a->guest_mask, SIGNAL_SET_BYTES);
}
