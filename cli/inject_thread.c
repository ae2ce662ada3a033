// SPDX-License-Identifier: MIT
/*
 * inject_thread.c - see inject_thread.h.
 *
 * A thread that was stopped inside a system call goes on with it: its registers come back with the
 * kernel's own mark for a restart, which is acted upon when it is let go. Its signals are held back
 * meanwhile, so that none of its handlers runs on our stack; and no trap is used, since a trap
 * that meets a blocked or ignored signal resets the target's handler. After a call it waits for us,
 * and finds back by itself if we are not there any more (inject_return.h).
 */
#include "cli/inject_thread.h"

#include "cli/clock.h"
#include "cli/program.h"

#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALL_TIMEOUT_MS 60000
#define STOP_TIMEOUT_MS 500
#define STACK_BYTES (1u << 20)
#define ARGUMENT_BYTES 4096u
/*
 * Zeros above the call, frame pointer in the midst: who unwinds the stack from there finds that the
 * function was called by nobody.
 */
#define ROOT_BYTES 1024u
#define SYSCALL_STOP (SIGTRAP | 0x80) /* PTRACE_O_TRACESYSGOOD */
#define LOOK_NS 200000 /* where SIGCHLD is ignored nobody tells */

/* SIGCHLD is blocked (see held_run()), and tells that it is worth a look. */
static int wait_stop(pid_t tid, int timeout_ms, int *status)
{
	const struct timespec step = { 0, LOOK_NS };
	uint64_t end = now_ns() + (uint64_t)timeout_ms * 1000000;
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	do {
		pid_t got = waitpid(tid, status, __WALL | WNOHANG);

		if (got == tid)
			return WIFSTOPPED(*status) ? 0 : -ESRCH;
		if (got < 0)
			return -errno;
		sigtimedwait(&child, NULL, &step);
	} while (now_ns() < end);
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
	return get_xstate(t);
}

struct run {
	void (*act)(void *arg);
	void *arg;
};

static void *run(void *arg)
{
	const struct run *r = arg;

	r->act(r->arg);
	return NULL;
}

void held_run(void (*act)(void *arg), void *arg)
{
	struct run r = { act, arg };
	pthread_t thread;
	sigset_t before;
	sigset_t child;

	/* In that thread too, for wait_stop(). */
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &child, &before);
	if (pthread_create(&thread, NULL, run, &r))
		act(arg);
	else
		pthread_join(thread, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Since an earlier try, that was too short for it to stop. */
static bool is_ours(const struct held_thread *t)
{
	char tracer[16];

	return program_status(t->pid, t->tid, "TracerPid", tracer, sizeof(tracer)) &&
	       atoi(tracer) == gettid();
}

int held_begin(struct held_thread *t, pid_t pid, pid_t tid, int memory_fd)
{
	int status;

	memset(t, 0, sizeof(*t));
	t->pid = pid;
	t->tid = tid;
	t->memory_fd = memory_fd;
	if (ptrace(PTRACE_SEIZE, tid, NULL, PTRACE_O_TRACESYSGOOD)) {
		int refused = -errno;

		if (!is_ours(t))
			return refused;
	}
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

/* On to the next entry or exit of a system call. */
static int next_syscall_stop(struct held_thread *t, struct user_regs_struct *regs)
{
	int status;

	do {
		if (ptrace(PTRACE_SYSCALL, t->tid, NULL, NULL))
			return -errno;
		int err = wait_stop(t->tid, CALL_TIMEOUT_MS, &status);
		t->is_lost = err == -ETIMEDOUT;
		if (err)
			return err;
	} while (status >> 16 == PTRACE_EVENT_STOP); /* SIGSTOP: it stops after the call */
	if (ptrace(PTRACE_GETREGS, t->tid, NULL, regs))
		return -errno;
	return WSTOPSIG(status) == SYSCALL_STOP ? 0 : -EFAULT; /* it crashed */
}

/* Registers before the mask: killed in between, the thread has both again when it is back. */
static int begin_run(struct held_thread *t, const struct user_regs_struct *regs)
{
	if (t->is_lost)
		return -ETIMEDOUT;
	if (ptrace(PTRACE_SETREGS, t->tid, NULL, regs))
		return -errno;
	int err = t->has_run ? 0 : set_mask(t, ~0ull);
	t->has_run = true;
	return err;
}

long held_syscall(struct held_thread *t, long number, const uint64_t args[6])
{
	struct user_regs_struct regs;

	if (t->mapped && number != SYS_munmap)
		return_for_syscall(t, &regs);
	else
		return_on_own_stack(t, &regs);
	regs.rax = (unsigned long long)number;
	regs.rdi = args[0];
	regs.rsi = args[1];
	regs.rdx = args[2];
	regs.r10 = args[3];
	regs.r8 = args[4];
	regs.r9 = args[5];
	int err = begin_run(t, &regs);
	if (!err)
		err = next_syscall_stop(t, &regs);
	if (!err)
		err = next_syscall_stop(t, &regs);
	return err ? err : (long)regs.rax;
}

static void unmap(struct held_thread *t)
{
	const uint64_t args[6] = { t->mapped, RETURN_BYTES + STACK_BYTES };

	held_syscall(t, SYS_munmap, args);
}

/* What was called goes on, and back by itself; what we mapped stays. */
static void let_lost_go(struct held_thread *t)
{
	int status;

	ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL);
	if (!wait_stop(t->tid, STOP_TIMEOUT_MS, &status))
		ptrace(PTRACE_DETACH, t->tid, NULL, NULL);
}

void held_end(struct held_thread *t)
{
	struct iovec iov = { t->xstate, t->xstate_size };

	/* First: killed after it is unmapped, nothing there would put it back. */
	if (t->errno_at && t->has_run && !t->is_lost)
		pwrite(t->memory_fd, &t->errno_saved, sizeof(int), (off_t)t->errno_at);
	if (t->mapped && !t->is_lost)
		unmap(t);
	if (t->is_lost) {
		let_lost_go(t);
		return;
	}
	set_mask(t, t->saved_mask);
	if (t->has_run) {
		ptrace(PTRACE_SETREGSET, t->tid, NT_X86_XSTATE, &iov);
		ptrace(PTRACE_SETREGS, t->tid, NULL, &t->saved);
	}
	ptrace(PTRACE_DETACH, t->tid, NULL, NULL);
}

static int map_stack(struct held_thread *t)
{
	const uint64_t map[6] = { 0, RETURN_BYTES + STACK_BYTES, PROT_READ | PROT_EXEC,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, (uint64_t)-1, 0 };

	if (t->stack)
		return 0;
	long at = t->mapped ? (long)t->mapped : held_syscall(t, SYS_mmap, map);
	if (at < 0 && at > -4096)
		return (int)at;
	t->mapped = (uint64_t)at;
	int err = return_write(t);
	if (err)
		return err;
	/* Never both writable and executable, which some systems forbid. */
	const uint64_t protect[6] = { t->mapped + RETURN_BYTES, STACK_BYTES,
				      PROT_READ | PROT_WRITE };
	err = (int)held_syscall(t, SYS_mprotect, protect);
	if (!err)
		t->stack = t->mapped + RETURN_BYTES;
	return err;
}

static uint64_t argument_at(const struct held_thread *t)
{
	return t->stack + STACK_BYTES - ARGUMENT_BYTES;
}

static uint64_t result_at(const struct held_thread *t)
{
	return t->stack + STACK_BYTES - sizeof(struct return_result);
}

uint64_t held_write(struct held_thread *t, const void *bytes, size_t n)
{
	if (n > ARGUMENT_BYTES - sizeof(struct return_result) || map_stack(t))
		return 0;
	return pwrite(t->memory_fd, bytes, n, (off_t)argument_at(t)) == (ssize_t)n ?
		       argument_at(t) : 0;
}

/* 0: the result is there. -EAGAIN: not yet. */
static int look_for_result(const struct held_thread *t, struct return_result *result)
{
	int status;
	ssize_t n = pread(t->memory_fd, result, sizeof(*result), (off_t)result_at(t));

	if (n == sizeof(*result) && result->is_there)
		return 0;
	pid_t got = waitpid(t->tid, &status, __WALL | WNOHANG);
	if (!got)
		return -EAGAIN;
	if (got < 0)
		return -errno;
	if (!WIFSTOPPED(status))
		return -ESRCH;
	/* SIGSTOP: it stops after the call. All else it was made to do by what it runs: it crashed. */
	if (status >> 16 != PTRACE_EVENT_STOP)
		return -EFAULT;
	return ptrace(PTRACE_CONT, t->tid, NULL, NULL) ? -errno : -EAGAIN;
}

/* Nobody was stopped at each of its system calls, of which there may be ten thousand. */
static int wait_for_result(struct held_thread *t, struct return_result *result)
{
	uint64_t end = now_ns() + (uint64_t)CALL_TIMEOUT_MS * 1000000;
	struct timespec step = { 0, LOOK_NS };
	int err;

	while ((err = look_for_result(t, result)) == -EAGAIN && now_ns() < end)
		nanosleep(&step, NULL);
	t->is_lost = err == -EAGAIN;
	return t->is_lost ? -ETIMEDOUT : err;
}

/* It has gone on: what it has now is what it shall get back. */
static int start_anew(struct held_thread *t)
{
	t->has_run = false;
	t->has_left = true;
	int err = save_all(t);
	if (err)
		return err;
	if (t->errno_at && pread(t->memory_fd, &t->errno_saved, sizeof(int), (off_t)t->errno_at) !=
				   sizeof(int))
		return -EFAULT;
	return return_write(t);
}

/* It waits for us; or it has waited long enough, and is back where it was. */
static int stop_again(struct held_thread *t)
{
	struct user_regs_struct regs;
	int status;

	ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL);
	int err = wait_stop(t->tid, STOP_TIMEOUT_MS, &status);
	t->is_lost = err == -ETIMEDOUT;
	if (!err && ptrace(PTRACE_GETREGS, t->tid, NULL, &regs))
		err = -errno;
	if (err || return_is_reached(t, &regs))
		return err;
	return start_anew(t);
}

int held_call(struct held_thread *t, uint64_t function, const uint64_t args[4], uint64_t *result)
{
	struct return_result returned = { 0, 0 };
	struct user_regs_struct regs;
	int err = t->has_left ? -EINTR : map_stack(t);

	if (err)
		return err;
	if (pwrite(t->memory_fd, &returned, sizeof(returned), (off_t)result_at(t)) !=
	    sizeof(returned))
		return -EFAULT;
	/* As before a call instruction: sp is a multiple of 16. */
	uint64_t sp = argument_at(t) - ROOT_BYTES;
	return_for_call(t, function, sp, result_at(t), &regs);
	regs.rbp = sp + ROOT_BYTES / 2;
	regs.rdi = args[0];
	regs.rsi = args[1];
	regs.rdx = args[2];
	regs.rcx = args[3];
	err = begin_run(t, &regs);
	if (!err && ptrace(PTRACE_CONT, t->tid, NULL, NULL))
		err = -errno;
	if (!err)
		err = wait_for_result(t, &returned);
	*result = returned.value;
	return err ? err : stop_again(t);
}
