// SPDX-License-Identifier: MIT
/*
 * inject_thread.c - see inject_thread.h.
 *
 * A thread that was stopped inside a system call goes on with it: its registers come back with the
 * kernel's own mark for a restart, which is acted upon when it is let go. Its signals are held back
 * meanwhile, so that none of its handlers runs on our stack; and no trap is used, since a trap
 * that meets a blocked or ignored signal resets the target's handler. A call ends where it
 * returns to: at a system call instruction, where the kernel stops the thread for us.
 */
#include "cli/inject_thread.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALL_TIMEOUT_MS 10000
#define STOP_TIMEOUT_MS 500
#define STACK_BYTES (1u << 20)
#define ARGUMENT_BYTES 4096u
/*
 * Zeros above the call, frame pointer in the midst: who unwinds the stack from there takes the system
 * call for part of a function, and finds that it has no caller.
 */
#define ROOT_BYTES 1024u
#define SYSCALL_STOP (SIGTRAP | 0x80) /* PTRACE_O_TRACESYSGOOD */

static int wait_stop(pid_t tid, int timeout_ms, int *status)
{
	struct timespec pause = { 0, 200000 };

	for (int spent_us = 0; spent_us < timeout_ms * 1000; spent_us += 200) {
		pid_t got = waitpid(tid, status, __WALL | WNOHANG);

		if (got == tid)
			return WIFSTOPPED(*status) ? 0 : -ESRCH;
		if (got < 0)
			return -errno;
		nanosleep(&pause, NULL);
	}
	return -ETIMEDOUT;
}

static int get_xstate(struct held_thread *t)
{
	struct iovec iov = { t->xstate, sizeof(t->xstate) };

	if (ptrace(PTRACE_GETREGSET, t->tid, NT_X86_XSTATE, &iov))
		return -errno;
	t->xstate_size = iov.iov_len;
	return 0;
}

static int set_mask(const struct held_thread *t, uint64_t mask)
{
	return ptrace(PTRACE_SETSIGMASK, t->tid, sizeof(mask), &mask) ? -errno : 0;
}

static int save_all(struct held_thread *t)
{
	if (ptrace(PTRACE_GETREGS, t->tid, NULL, &t->saved))
		return -errno;
	if (ptrace(PTRACE_GETSIGMASK, t->tid, sizeof(t->saved_mask), &t->saved_mask))
		return -errno;
	int err = get_xstate(t);
	return err ? err : set_mask(t, ~0ull);
}

int held_begin(struct held_thread *t, pid_t pid, pid_t tid, int memory_fd)
{
	int status;

	memset(t, 0, sizeof(*t));
	t->pid = pid;
	t->tid = tid;
	t->memory_fd = memory_fd;
	if (ptrace(PTRACE_SEIZE, tid, NULL, PTRACE_O_TRACESYSGOOD))
		return -errno;
	ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
	int err = wait_stop(tid, STOP_TIMEOUT_MS, &status);
	/* A signal of its own came first: it is given back when the thread goes on. */
	while (!err && status >> 16 != PTRACE_EVENT_STOP) {
		ptrace(PTRACE_CONT, tid, NULL, WSTOPSIG(status));
		err = wait_stop(tid, STOP_TIMEOUT_MS, &status);
	}
	if (!err)
		err = save_all(t);
	if (err)
		ptrace(PTRACE_DETACH, tid, NULL, NULL);
	return err;
}

void held_end(struct held_thread *t)
{
	struct iovec iov = { t->xstate, t->xstate_size };

	if (t->stack) {
		const uint64_t args[6] = { t->stack, STACK_BYTES };

		held_syscall(t, SYS_munmap, args);
	}
	ptrace(PTRACE_SETREGSET, t->tid, NT_X86_XSTATE, &iov);
	ptrace(PTRACE_SETREGS, t->tid, NULL, &t->saved);
	set_mask(t, t->saved_mask);
	ptrace(PTRACE_DETACH, t->tid, NULL, NULL);
}

/* On to the next entry or exit of a system call. */
static int next_syscall_stop(const struct held_thread *t, struct user_regs_struct *regs)
{
	int status;

	if (ptrace(PTRACE_SYSCALL, t->tid, NULL, NULL))
		return -errno;
	int err = wait_stop(t->tid, CALL_TIMEOUT_MS, &status);
	if (err)
		return err;
	if (ptrace(PTRACE_GETREGS, t->tid, NULL, regs))
		return -errno;
	return WSTOPSIG(status) == SYSCALL_STOP ? 0 : -EFAULT; /* it crashed */
}

long held_syscall(struct held_thread *t, long number, const uint64_t args[6])
{
	struct user_regs_struct regs = t->saved;

	regs.rip = t->syscall_at;
	regs.rax = (unsigned long long)number;
	regs.orig_rax = (unsigned long long)-1;
	regs.rdi = args[0];
	regs.rsi = args[1];
	regs.rdx = args[2];
	regs.r10 = args[3];
	regs.r8 = args[4];
	regs.r9 = args[5];
	if (ptrace(PTRACE_SETREGS, t->tid, NULL, &regs))
		return -errno;
	int err = next_syscall_stop(t, &regs);
	if (!err)
		err = next_syscall_stop(t, &regs);
	return err ? err : (long)regs.rax;
}

static int map_stack(struct held_thread *t)
{
	const uint64_t args[6] = { 0, STACK_BYTES, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, (uint64_t)-1, 0 };

	if (t->stack)
		return 0;
	long at = held_syscall(t, SYS_mmap, args);
	if (at < 0 && at > -4096)
		return (int)at;
	t->stack = (uint64_t)at;
	return 0;
}

uint64_t held_write(struct held_thread *t, const void *bytes, size_t n)
{
	if (n > ARGUMENT_BYTES || map_stack(t))
		return 0;
	uint64_t at = t->stack + STACK_BYTES - ARGUMENT_BYTES;
	return pwrite(t->memory_fd, bytes, n, (off_t)at) == (ssize_t)n ? at : 0;
}

/* What the function returned stands where the number of the system call would. */
static int finish_call(const struct held_thread *t, struct user_regs_struct *regs,
		       uint64_t *result)
{
	*result = regs->orig_rax;
	regs->orig_rax = (unsigned long long)-1;
	if (ptrace(PTRACE_SETREGS, t->tid, NULL, regs))
		return -errno;
	return next_syscall_stop(t, regs);
}

int held_call(struct held_thread *t, uint64_t function, const uint64_t args[4], uint64_t *result)
{
	struct user_regs_struct regs = t->saved;
	int err = map_stack(t);

	if (err)
		return err;
	/* As after a call instruction: sp is 8 below a multiple of 16. */
	uint64_t sp = t->stack + STACK_BYTES - ARGUMENT_BYTES - ROOT_BYTES - 8;
	if (pwrite(t->memory_fd, &t->syscall_at, 8, (off_t)sp) != 8)
		return -errno;
	regs.rsp = sp;
	regs.rbp = sp + ROOT_BYTES / 2;
	regs.rip = function;
	regs.rdi = args[0];
	regs.rsi = args[1];
	regs.rdx = args[2];
	regs.rcx = args[3];
	regs.rax = 0;
	regs.orig_rax = (unsigned long long)-1;
	regs.eflags &= ~0x400ull; /* direction flag: clear at every call */
	if (ptrace(PTRACE_SETREGS, t->tid, NULL, &regs))
		return -errno;
	do
		err = next_syscall_stop(t, &regs);
	while (!err && !(regs.rip == t->syscall_at + 2 && regs.rsp == sp + 8));
	return err ? err : finish_call(t, &regs, result);
}
