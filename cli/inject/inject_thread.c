/* SPDX-License-Identifier: MIT */
/*
 * inject_thread.c - see inject_thread.h.
 *
 * A thread that was stopped inside a system call continues it. Its registers are restored with the
 * kernel's own mark for a restart, which takes effect when the thread is resumed. What the kernel
 * keeps for that is in the thread, and the calls below leave it alone (inject_return.c, sys_nap()).
 * Its signals are blocked during the calls, so that none of its handlers runs on the separate
 * stack. No trap is used, since a trap that meets a blocked or ignored signal resets the target's
 * handler. After a call the thread waits for trapline, and restores itself if trapline has ended
 * (inject_return.h).
 */
#include "cli/inject/inject_thread.h"

#include "base/clock.h"
#include "cli/launch/program.h"

#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALL_TIMEOUT_MS 60000
#define STOP_TIMEOUT_MS 500
#define STARVED_WAITS 40 /* of those */
#define ARGUMENT_BYTES 4096u
/*
 * Zeros above the call, with the frame pointer among them: an unwinder finds no caller
 * there.
 */
#define ROOT_BYTES 1024u
#define TRAP_PERF_CODE 6 /* of siginfo(2), which older headers lack */
#define PENDING_MAX 8
#define SYSCALL_STOP (SIGTRAP | 0x80) /* PTRACE_O_TRACESYSGOOD */
#define ENTRY_TRIES 5
#define RESTARTS_MAX 1000
#define LOCK_STEP_NS 5000000
#define LOCK_TRIES 2000 /* of a command */
#define LOOK_NS 200000	/* if SIGCHLD is ignored, no signal reports a stop */

static bool (*over)(void);

void held_until(bool (*is_over)(void))
{
	over = is_over;
}

bool held_is_over(void)
{
	return over && over();
}

/* SIGCHLD is blocked (see held_run()); it reports that the state may have changed. */
static int wait_stop(pid_t tid, int timeout_ms, int *status)
{
	const struct timespec step = { 0, LOOK_NS };
	uint64_t end = clock_now_ns() + (uint64_t)timeout_ms * 1000000;
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	do {
		pid_t got = waitpid(tid, status, __WALL | WNOHANG);

		if (got == tid)
			return WIFSTOPPED(*status) ? 0 : -ESRCH;
		if (got < 0)
			return -errno;
		/* A stop is short, and what it began has to be ended. */
		if (timeout_ms > STOP_TIMEOUT_MS && held_is_over())
			return -ECANCELED;
		sigtimedwait(&child, NULL, &step);
	} while (clock_now_ns() < end);
	return -ETIMEDOUT;
}

/* It has no CPU at present. */
static bool is_starved(const struct held_thread *t)
{
	return program_thread_state(t->pid, t->tid) == 'R';
}

/*
 * The stop that PTRACE_INTERRUPT asked for. A thread that waits for a CPU has left its system call
 * already, and would see it end with EINTR if its stop were not waited for. One that sleeps where
 * nothing interrupts it (vfork(2), a disk) does not notice: it is given up soon.
 */
static int wait_interrupted(const struct held_thread *t, int *status)
{
	int err = wait_stop(t->tid, STOP_TIMEOUT_MS, status);

	for (int i = 0; err == -ETIMEDOUT && i < STARVED_WAITS && is_starved(t); i++)
		err = wait_stop(t->tid, STOP_TIMEOUT_MS, status);
	return err;
}

/* 0: it is a stop without a signal. */
static int signal_of(int status)
{
	return status >> 16 || WSTOPSIG(status) == SYSCALL_STOP ? 0 : WSTOPSIG(status);
}

/* A signal of the program that arrived first is delivered before. */
static int wait_asked_stop(const struct held_thread *t)
{
	int status;
	int err = wait_interrupted(t, &status);

	while (!err && status >> 16 != PTRACE_EVENT_STOP) {
		ptrace(PTRACE_CONT, t->tid, NULL, signal_of(status));
		err = wait_interrupted(t, &status);
	}
	return err;
}

/* SIGSTOP, which cannot be blocked: the program stops now, and the thread after the call. */
static bool is_to_stop(int status)
{
	return status >> 16 == PTRACE_EVENT_STOP || signal_of(status) == SIGSTOP;
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

static bool is_left_over(const siginfo_t *info)
{
	return info->si_signo == SIGTRAP &&
	       (info->si_code == TRAP_PERF_CODE || info->si_code == SI_KERNEL);
}

static bool has_trap_pending(const struct held_thread *t)
{
	const struct __ptrace_peeksiginfo_args args = { .nr = PENDING_MAX };
	siginfo_t pending[PENDING_MAX];
	long n = ptrace(PTRACE_PEEKSIGINFO, t->tid, &args, pending);

	while (n > 0 && !is_left_over(&pending[n - 1]))
		n--;
	return n > 0;
}

static int save_all(struct held_thread *t, const struct call_look *look)
{
	if (ptrace(PTRACE_GETREGS, t->tid, NULL, &t->saved))
		return -errno;
	if (ptrace(PTRACE_GETSIGMASK, t->tid, sizeof(t->saved_mask), &t->saved_mask))
		return -errno;
	int err = get_xstate(t);
	if (err)
		return err;
	/* An int3 of the program looks like a sample of Trapline. Only one can be pending. */
	t->had_trap = has_trap_pending(t);
	call_repair(t->pid, look, &t->saved, &t->timeout);
	/* At once: then the call also begins again if trapline is killed. */
	return t->timeout.call && ptrace(PTRACE_SETREGS, t->tid, NULL, &t->saved) ? -errno : 0;
}

struct run {
	void (*act)(void *arg);
	void *arg;
};

static void *thread_run(void *arg)
{
	const struct run *r = arg;

	r->act(r->arg);
	return NULL;
}

/* A command has the lock while its calls run (return_find_free()). */
bool held_wait_for_others(int memory_fd)
{
	static int tries;
	const struct timespec step = { 0, LOCK_STEP_NS };
	bool was_locked = false;

	while (flock(memory_fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK || held_is_over() || tries++ >= LOCK_TRIES)
			return false;
		was_locked = true;
		nanosleep(&step, NULL);
	}
	flock(memory_fd, LOCK_UN);
	return was_locked;
}

void held_run(void (*act)(void *arg), void *arg)
{
	struct run r = { act, arg };
	pthread_t thread;
	sigset_t before;
	sigset_t child;

	/* Blocked in that thread too, for wait_stop(). */
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &child, &before);
	if (pthread_create(&thread, NULL, thread_run, &r))
		act(arg);
	else
		pthread_join(thread, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int held_begin(struct held_thread *t, pid_t pid, pid_t tid, int memory_fd)
{
	struct call_look look;

	memset(t, 0, sizeof(*t));
	t->pid = pid;
	t->tid = tid;
	t->memory_fd = memory_fd;
	t->timeout.fd = -1;
	call_look(pid, tid, &look);
	if (look.kind == CALL_TRANSFERS)
		return -EBUSY;
	if (ptrace(PTRACE_SEIZE, tid, NULL, PTRACE_O_TRACESYSGOOD)) {
		int refused = -errno;

		/* An earlier try seized the thread, and did not wait long enough for it to stop. */
		if (program_tracer(pid, tid) != gettid())
			return refused;
	}
	ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
	int err = wait_asked_stop(t);
	if (!err)
		err = save_all(t, &look);
	if (err)
		ptrace(PTRACE_DETACH, tid, NULL, NULL);
	return err;
}

/* Raised by an instruction of Trapline: another program was executed since it was found. */
static bool is_fault(const struct held_thread *t, int number)
{
	siginfo_t info;

	return (number == SIGSEGV || number == SIGBUS || number == SIGILL) &&
	       !ptrace(PTRACE_GETSIGINFO, t->tid, NULL, &info) && info.si_code > 0;
}

/*
 * A signal came before its first call, which its handler has to find undone: its result may be the
 * end of the call that the thread waits in. A signal that came while all are blocked shows a crash,
 * and so does a fault. That one is not the program's.
 */
static int leave_for_signal(struct held_thread *t, int number)
{
	if (t->is_masked || is_fault(t, number))
		return -EFAULT;
	t->signal = number;
	return ptrace(PTRACE_SETREGS, t->tid, NULL, &t->saved) ? -errno : -EINTR;
}

static void note_birth(struct held_thread *t, int status)
{
	unsigned long tid;

	if (status >> 16 == PTRACE_EVENT_CLONE && !ptrace(PTRACE_GETEVENTMSG, t->tid, NULL, &tid))
		t->born = (pid_t)tid;
}

/* Resumes it until the next entry or exit of a system call. */
static int next_syscall_stop(struct held_thread *t, struct user_regs_struct *regs)
{
	int status = 0;

	do {
		if (ptrace(PTRACE_SYSCALL, t->tid, NULL, signal_of(status)))
			return -errno;
		int err = wait_stop(t->tid, CALL_TIMEOUT_MS, &status);
		t->is_lost = err == -ETIMEDOUT || err == -ECANCELED;
		if (err)
			return err;
		note_birth(t, status);
	} while (is_to_stop(status) || status >> 16 == PTRACE_EVENT_CLONE);
	if (ptrace(PTRACE_GETREGS, t->tid, NULL, regs))
		return -errno;
	return WSTOPSIG(status) == SYSCALL_STOP ? 0 : leave_for_signal(t, WSTOPSIG(status));
}

/*
 * Registers before the mask: if trapline is killed in between, the thread restores both.
 */
static int begin_run(struct held_thread *t, const struct user_regs_struct *regs)
{
	if (t->is_lost)
		return held_is_over() ? -ECANCELED : -ETIMEDOUT;
	if (ptrace(PTRACE_SETREGS, t->tid, NULL, regs))
		return -errno;
	t->has_run = true;
	if (t->is_masked || return_needs_signals(t))
		return 0;
	t->is_masked = true;
	return set_mask(t, ~0ull);
}

static long run_syscall(struct held_thread *t, struct user_regs_struct *regs, long number,
			const uint64_t args[6])
{
	regs->rax = (unsigned long long)number;
	regs->rdi = args[0];
	regs->rsi = args[1];
	regs->rdx = args[2];
	regs->r10 = args[3];
	regs->r8 = args[4];
	regs->r9 = args[5];
	int err = begin_run(t, regs);
	if (!err)
		err = next_syscall_stop(t, regs);
	if (!err)
		err = next_syscall_stop(t, regs);
	return err ? err : (long)regs->rax;
}

static long syscall_once(struct held_thread *t, long number, const uint64_t args[6])
{
	struct user_regs_struct regs;

	if (t->is_loader && t->has_left)
		return -EINTR;
	if (t->mapped)
		return_for_syscall(t, &regs);
	else
		return_on_own_stack(t, &regs);
	return run_syscall(t, &regs, number, args);
}

/* A stop or a signal of the program in the meantime sends the thread back, clone(2) above all. */
long held_syscall(struct held_thread *t, long number, const uint64_t args[6])
{
	long result = -EAGAIN;

	for (int i = 0; i < RESTARTS_MAX; i++) {
		result = syscall_once(t, number, args);
		if (!return_is_restart(result))
			return result;
	}
	return -EAGAIN;
}

static void unmap_stack(struct held_thread *t)
{
	const uint64_t args[6] = { t->stack, HELD_STACK_BYTES };

	held_syscall(t, SYS_munmap, args);
}

/* The called function continues and returns by itself; the mapping stays. */
static void let_lost_go(struct held_thread *t)
{
	ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL);
	if (!wait_asked_stop(t))
		ptrace(PTRACE_DETACH, t->tid, NULL, NULL);
	call_resumed(t->pid, t->tid, &t->timeout);
}

/*
 * What ran in the thread may have been a sample of Trapline's events, and their handler would end
 * the call that the thread continues with. The registers are set: it stops again before its first
 * instruction. Returns the signal to resume it with.
 */
static int drop_left_over(const struct held_thread *t)
{
	siginfo_t info;
	int status;

	if (t->signal)
		return t->signal;
	if (t->had_trap || t->saved_mask & TRAP_BIT || !has_trap_pending(t) ||
	    ptrace(PTRACE_CONT, t->tid, NULL, NULL) || wait_interrupted(t, &status) ||
	    status >> 16 == PTRACE_EVENT_STOP)
		return 0;
	if (!ptrace(PTRACE_GETSIGINFO, t->tid, NULL, &info) && is_left_over(&info))
		return 0;
	return WSTOPSIG(status);
}

/*
 * Takes a pending sample away from a thread that has SIGTRAP blocked, before its next instruction.
 * If trapline is killed here, the thread keeps the signal unblocked.
 */
static bool drop_blocked_tick(struct held_thread *t)
{
	siginfo_t info;
	int status;

	if (set_mask(t, t->saved_mask & ~TRAP_BIT) || ptrace(PTRACE_CONT, t->tid, NULL, NULL) ||
	    wait_interrupted(t, &status))
		return false;
	bool is_tick = !ptrace(PTRACE_GETSIGINFO, t->tid, NULL, &info) && is_left_over(&info);
	t->signal = is_tick ? 0 : signal_of(status);
	return !set_mask(t, t->saved_mask) && is_tick;
}

/*
 * A thread that has SIGTRAP blocked runs one instruction to begin a call again that may open the
 * signal, such as sigsuspend(2). A sample of Trapline's events there, or in the calls before, would
 * end it. So the thread is released inside the call, without one. False: it is where it was, or has
 * a signal.
 */
static bool enter_call_again(struct held_thread *t)
{
	struct user_regs_struct again = t->saved;
	struct user_regs_struct at;

	if (!(t->saved_mask & TRAP_BIT) || t->had_trap || t->signal || !return_begin_again(&again))
		return false;
	for (int i = 0; i < ENTRY_TRIES; i++) {
		/* The thread is before the call, also if trapline is killed. */
		if (ptrace(PTRACE_SETREGS, t->tid, NULL, &again) ||
		    (has_trap_pending(t) && !drop_blocked_tick(t)) || next_syscall_stop(t, &at))
			return false;
		if (!has_trap_pending(t))
			return true;
		/* Now the call does not happen. */
		if (ptrace(PTRACE_SETREGS, t->tid, NULL, &again) || next_syscall_stop(t, &at))
			return false;
	}
	return false;
}

void held_end(struct held_thread *t)
{
	struct iovec iov = { t->xstate, t->xstate_size };

	/* This comes first: once its registers are set, nothing in the target could restore it. */
	if (t->errno_at && t->has_run && !t->is_lost)
		pwrite(t->memory_fd, &t->errno_saved, sizeof(int), (off_t)t->errno_at);
	if (t->stack && !t->is_lost)
		unmap_stack(t);
	if (t->is_lost) {
		let_lost_go(t);
		return;
	}
	set_mask(t, t->saved_mask);
	t->is_masked = false;
	call_resume(t->pid, t->tid, &t->saved, &t->timeout);
	if (t->has_run)
		ptrace(PTRACE_SETREGSET, t->tid, NT_X86_XSTATE, &iov);
	bool is_inside = enter_call_again(t);
	if (!is_inside)
		ptrace(PTRACE_SETREGS, t->tid, NULL, &t->saved);
	if (t->mapped)
		return_free(t);
	int signal = t->has_run && !is_inside ? drop_left_over(t) : t->signal;
	ptrace(PTRACE_DETACH, t->tid, NULL, signal);
	call_resumed(t->pid, t->tid, &t->timeout);
}

long held_map(struct held_thread *t, size_t n, int protection)
{
	const uint64_t args[6] = { 0,
				   n,
				   (uint64_t)protection,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
				   (uint64_t)-1,
				   0 };

	return held_syscall(t, SYS_mmap, args);
}

/* The way back, once for a process: it stays for the next attach. */
static int map_way_back(struct held_thread *t)
{
	if (!t->mapped && !return_find_free(t)) {
		long at = held_map(t, RETURN_BYTES, PROT_READ | PROT_EXEC);

		if (at < 0)
			return (int)at;
		t->mapped = (uint64_t)at;
	}
	return return_write(t);
}

static int map_stack(struct held_thread *t)
{
	int err = t->stack ? 0 : map_way_back(t);

	if (err || t->stack)
		return err;
	long at = held_map(t, HELD_STACK_BYTES, PROT_READ | PROT_WRITE);
	if (at < 0)
		return (int)at;
	t->stack = (uint64_t)at;
	return 0;
}

static uint64_t argument_at(const struct held_thread *t)
{
	return t->stack + HELD_STACK_BYTES - ARGUMENT_BYTES;
}

static uint64_t result_at(const struct held_thread *t)
{
	return t->stack + HELD_STACK_BYTES - sizeof(struct return_result);
}

uint64_t held_write(struct held_thread *t, const void *bytes, size_t n)
{
	if (n > ARGUMENT_BYTES - sizeof(struct return_result) || map_stack(t))
		return 0;
	return pwrite(t->memory_fd, bytes, n, (off_t)argument_at(t)) == (ssize_t)n ?
		       argument_at(t) :
		       0;
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
	/* Each other signal is from the code that it runs: it crashed. */
	if (!is_to_stop(status))
		return -EFAULT;
	return ptrace(PTRACE_CONT, t->tid, NULL, signal_of(status)) ? -errno : -EAGAIN;
}

/*
 * The thread does not stop at each of its system calls, of which there may be ten
 * thousand.
 */
static int wait_for_result(struct held_thread *t, struct return_result *result)
{
	uint64_t end = clock_now_ns() + (uint64_t)CALL_TIMEOUT_MS * 1000000;
	struct timespec step = { 0, LOOK_NS };
	int err;

	while ((err = look_for_result(t, result)) == -EAGAIN && clock_now_ns() < end &&
	       !held_is_over())
		nanosleep(&step, NULL);
	t->is_lost = err == -EAGAIN;
	if (t->is_lost)
		return held_is_over() ? -ECANCELED : -ETIMEDOUT;
	return err;
}

/* It has continued: its registers of now are the ones to restore. */
static int start_anew(struct held_thread *t)
{
	const struct call_look unknown = { .number = -1 };

	t->has_left = true;
	if (t->is_loader)
		return 0;
	t->has_run = false;
	t->is_masked = false;
	call_resumed(t->pid, t->tid, &t->timeout);
	int err = save_all(t, &unknown);
	if (err)
		return err;
	if (t->errno_at &&
	    pread(t->memory_fd, &t->errno_saved, sizeof(int), (off_t)t->errno_at) != sizeof(int))
		return -EFAULT;
	return return_write(t);
}

/* It waits for trapline; or it waited long enough and has returned. */
static int stop_again(struct held_thread *t)
{
	struct user_regs_struct regs;

	ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL);
	int err = wait_asked_stop(t);
	t->is_lost = err == -ETIMEDOUT;
	t->is_gone = err == -ESRCH;
	if (t->is_loader && t->is_gone)
		return start_anew(t);
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
	/* sp is a multiple of 16, as before a call instruction. */
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

long held_clone(struct held_thread *t, struct user_regs_struct *regs, const uint64_t args[6])
{
	const struct user_regs_struct first = *regs;
	long result = -EAGAIN;

	if (ptrace(PTRACE_SETOPTIONS, t->tid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE))
		return -errno;
	for (int i = 0; i < RESTARTS_MAX; i++) {
		*regs = first;
		result = run_syscall(t, regs, SYS_clone, args);
		if (!return_is_restart(result))
			break;
	}
	ptrace(PTRACE_SETOPTIONS, t->tid, NULL, PTRACE_O_TRACESYSGOOD);
	if (result < 0)
		return return_is_restart(result) ? -EAGAIN : result;
	return t->born ? t->born : -ESRCH;
}

int held_take_new(struct held_thread *t, uint64_t exit_at)
{
	const struct call_look none = { .number = -1 };
	int err = wait_asked_stop(t);

	/* Those of its creator would make what it creates a stopped thread. */
	if (!err && ptrace(PTRACE_SETOPTIONS, t->tid, NULL, PTRACE_O_TRACESYSGOOD))
		err = -errno;
	if (!err)
		err = save_all(t, &none);
	t->saved.rip = exit_at;
	t->saved.rax = 0;
	t->saved.orig_rax = (unsigned long long)-1;
	t->has_run = true;
	t->is_masked = true;
	return err;
}

void held_end_new(struct held_thread *t)
{
	int err = t->is_gone ? -ESRCH : t->is_lost ? -ETIMEDOUT : 0;
	int status;

	if (!err)
		ptrace(PTRACE_SETREGS, t->tid, NULL, &t->saved);
	/* It may stop on its way, with all of the process. */
	while (!err) {
		ptrace(PTRACE_CONT, t->tid, NULL, NULL);
		err = wait_stop(t->tid, STOP_TIMEOUT_MS, &status);
	}
	t->is_lost = err != -ESRCH;
	if (t->is_lost)
		let_lost_go(t);
}

void held_let_go(struct held_thread *t)
{
	ptrace(PTRACE_DETACH, t->tid, NULL, NULL);
	call_resumed(t->pid, t->tid, &t->timeout);
	t->is_lost = true;
}
