/* SPDX-License-Identifier: MIT */
/*
 * snapshot.c - see snapshot.h.
 *
 * The thread makes a child that reports its end to no signal, and runs on. That child makes the
 * copy and is killed: the copy then belongs to init. Last, a thread of the process waits for the
 * child, which else would stay as a zombie. ptrace(2) stops all three, and follows their fork.
 */
#include "cli/act/snapshot.h"

#include "base/clock.h"
#include "base/maps.h"
#include "cli/inject/inject_thread.h"
#include "cli/launch/program.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COPY_WAIT_MS 2000
#define SIGNALS_MAX 20 /* that come before the fork */
#define REAP_THREADS 16
#define REAP_ROUNDS 20

struct taking {
	pid_t pid;
	pid_t tid;
	int continues;
	const struct snapshot_use *use;
	struct snapshot *out;
	char *why;
	size_t why_size;
	int err;
	struct return_gadgets gadgets;
	int memory_fd;
};

#define PIECES 5
#define PIECE_BYTES 10

/*
 * What was found in the process that was inspected last, and the code there: exec may replace it.
 */
static struct {
	pid_t pid;
	uint64_t start;
	struct return_gadgets gadgets;
	uint8_t code[PIECES][PIECE_BYTES];
} seen;

static int taking_failed(struct taking *t, int err, const char *what)
{
	if (err == -EPERM || err == -EACCES)
		program_explain_refusal(t->pid, t->why, t->why_size);
	else
		snprintf(t->why, t->why_size, "%s: %s", what, strerror(-err));
	t->err = err;
	return err;
}

static bool is_libc_code(const struct maps_row *row, const void *arg)
{
	return !strcmp(row->mode, "r-xp") &&
	       (strstr(row->name, "/libc.so") || strstr(row->name, "/libc-"));
}

static int open_memory_of(pid_t pid)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	return open(path, O_RDWR | O_CLOEXEC);
}

static void read_pieces(int memory_fd, const struct return_gadgets *g,
			uint8_t code[PIECES][PIECE_BYTES])
{
	const uint64_t at[PIECES] = { g->syscall_at, g->restore_at, g->pop_result_at,
				      g->pop_place_at, g->store_at };

	memset(code, 0, PIECES * PIECE_BYTES);
	for (int i = 0; i < PIECES; i++)
		if (at[i] && pread(memory_fd, code[i], PIECE_BYTES, (off_t)at[i]) < 0)
			code[i][0] = 0;
}

/*
 * A search reads all of libc, for a millisecond: once for a process, and not while it is stopped.
 */
static int find_gadgets(pid_t pid, int memory_fd, struct return_gadgets *out)
{
	uint8_t code[PIECES][PIECE_BYTES];
	uint64_t start = 0;
	uint64_t end;

	program_find_mapping(pid, is_libc_code, NULL, &start, &end);
	if (seen.pid == pid && seen.start == start) {
		read_pieces(memory_fd, &seen.gadgets, code);
		*out = seen.gadgets;
		if (!memcmp(code, seen.code, sizeof(code)))
			return 0;
	}
	seen.pid = 0;
	if (!return_find_gadgets(pid, memory_fd, start, out))
		return -ENOEXEC;
	seen.pid = pid;
	seen.start = start;
	seen.gadgets = *out;
	read_pieces(memory_fd, out, seen.code);
	return 0;
}

void snapshot_prepare(pid_t pid)
{
	struct return_gadgets unused;
	int memory_fd = open_memory_of(pid);

	if (memory_fd < 0)
		return;
	find_gadgets(pid, memory_fd, &unused);
	close(memory_fd);
}

/* The new child of the thread that this one traces, in its first stop. -errno: it did not come. */
static pid_t wait_new(pid_t known)
{
	const struct timespec step = { 0, 50000 };
	uint64_t end = clock_now_ns() + COPY_WAIT_MS * UINT64_C(1000000);
	int status;

	do {
		pid_t got = waitpid(-1, &status, __WALL | __WNOTHREAD | WNOHANG);

		if (got > 0 && got != known && WIFSTOPPED(status))
			return got;
		if (got <= 0)
			nanosleep(&step, NULL);
	} while (clock_now_ns() < end);
	return -ETIMEDOUT;
}

/*
 * A copy of the process of the stopped thread, stopped too. It dies with this command. 0 or -errno.
 */
static int copy_of(struct held_thread *from, struct held_thread *copy, long *number)
{
	const uint64_t args[6] = { CLONE_PTRACE };

	*number = held_syscall(from, SYS_clone, args);
	if (*number < 0)
		return (int)*number;
	pid_t pid = wait_new(from->tid);
	if (pid < 0)
		return pid;
	ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	*copy = *from;
	copy->pid = copy->tid = pid;
	copy->timeout.fd = -1;
	copy->memory_fd = open_memory_of(pid);
	return copy->memory_fd < 0 ? -errno : 0;
}

static void kill_copy(struct held_thread *copy)
{
	int status;

	if (!copy->tid)
		return;
	kill(copy->tid, SIGKILL);
	while (waitpid(copy->tid, &status, __WALL | __WNOTHREAD) > 0 && WIFSTOPPED(status))
		;
	if (copy->memory_fd >= 0)
		close(copy->memory_fd);
	copy->tid = 0;
}

/* It is where the thread was, has its signal mask, and is stopped. */
static int freeze(struct held_thread *copy)
{
	const uint64_t none[6] = { 0 };
	long session = held_syscall(copy, SYS_setsid, none);

	if (session < 0)
		return (int)session;
	if (ptrace(PTRACE_SETREGS, copy->tid, NULL, &copy->saved) ||
	    ptrace(PTRACE_SETSIGMASK, copy->tid, sizeof(copy->saved_mask), &copy->saved_mask) ||
	    kill(copy->tid, SIGSTOP) ||
	    ptrace(PTRACE_SETOPTIONS, copy->tid, NULL, PTRACE_O_TRACESYSGOOD) ||
	    ptrace(PTRACE_DETACH, copy->tid, NULL, NULL))
		return -errno;
	close(copy->memory_fd);
	return 0;
}

static int reap_in(struct taking *t, pid_t tid, long number)
{
	const uint64_t args[6] = { (uint64_t)number, 0, __WALL | WNOHANG, 0 };
	static struct held_thread held;
	int err = held_begin(&held, t->pid, tid, t->memory_fd);

	if (err)
		return err;
	held.gadgets = t->gadgets;
	long got = held_syscall(&held, SYS_wait4, args);
	held_end(&held);
	return got == number || got == -ECHILD ? 0 : -EAGAIN;
}

/* The killed child is gone from the process too. Any thread of it can wait for it. */
static bool reap(struct taking *t, long number)
{
	const struct timespec step = { 0, 5000000 };
	pid_t tids[REAP_THREADS];

	for (int round = 0; round < REAP_ROUNDS; round++) {
		size_t n = program_threads(t->pid, tids, REAP_THREADS);

		if (!n)
			return true;
		for (size_t i = 0; i < n; i++)
			if (!reap_in(t, tids[i], number))
				return true;
		nanosleep(&step, NULL);
	}
	return false;
}

static int make_child_once(struct taking *t, struct held_thread *child, long *number)
{
	static struct held_thread held;
	int err = held_begin(&held, t->pid, t->tid, t->memory_fd);

	if (err)
		return err;
	held.gadgets = t->gadgets;
	err = copy_of(&held, child, number);
	held_end(&held);
	return err;
}

/*
 * The thread makes the child, and continues. A signal of the program comes first, and its handler
 * later.
 */
static int make_child(struct taking *t, struct held_thread *child, long *number)
{
	uint64_t began_ns = clock_now_ns();
	int err = -EINTR;

	for (int i = 0; err == -EINTR && i < SIGNALS_MAX; i++)
		err = make_child_once(t, child, number);
	t->out->fork_ns = clock_now_ns() - began_ns;
	return err;
}

static int make_copies(struct taking *t)
{
	static struct held_thread child;
	static struct held_thread copy;
	long number = 0;
	long unused;

	child.tid = copy.tid = 0;
	int err = make_child(t, &child, &number);
	if (!err && t->continues) {
		kill(t->pid, SIGCONT);
		t->out->continued_ns = clock_now_ns();
	}
	if (!err)
		err = copy_of(&child, &copy, &unused);
	if (!err && !t->use)
		err = freeze(&copy);
	if (!err && !t->use)
		t->out->pid = copy.tid;
	else if (err)
		kill_copy(&copy);
	kill_copy(&child);
	t->out->left = number > 0 && !reap(t, number);
	/* It is still traced by this thread, so the kernel kills it with this command. */
	if (!err && t->use) {
		t->use->use(copy.tid, t->use->arg);
		kill_copy(&copy);
	}
	return err;
}

static void take(void *arg)
{
	struct taking *t = arg;

	t->memory_fd = open_memory_of(t->pid);
	if (t->memory_fd < 0) {
		taking_failed(t, -errno, "cannot open its memory");
		return;
	}
	int err = find_gadgets(t->pid, t->memory_fd, &t->gadgets);
	if (!err)
		err = make_copies(t);
	if (err)
		taking_failed(t, err, "fork in the process");
	close(t->memory_fd);
}

int snapshot_take(pid_t pid, pid_t tid, int continues, const struct snapshot_use *use,
		  struct snapshot *out, char *why, size_t n)
{
	struct taking t = { .pid = pid,
			    .tid = tid,
			    .continues = continues,
			    .use = use,
			    .out = out,
			    .why = why,
			    .why_size = n };

	*out = (struct snapshot){ 0 };
	held_run(take, &t);
	return t.err;
}
