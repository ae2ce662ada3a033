/* SPDX-License-Identifier: MIT */
/* watch_stall.c - see watch_stall.h. */
#include "cli/watch/watch_stall.h"

#include "base/clock.h"
#include "cli/launch/program.h"
#include "cli/observe/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS_MAX 16384
#define LOOKS_MAX 20  /* a ms apart */
#define ROUNDS_SLOW 3 /* what stops after these is left to the session */
#define ROUNDS_MAX 20 /* over the list of threads, until it is stable */

struct stalled_thread {
	pid_t tid;
	uint64_t since_ns;
};

struct watch_stall {
	pid_t pid;
	int signal;
	pid_t *tids; /* traced ones */
	size_t count;
	size_t room;
	struct stalled_thread *stalled; /* as much room as tids has */
	size_t stalled_count;
	struct sigaction before;
	bool is_tracing;
	bool has_ended;
	int status;
};

static int stop_fd = -1; /* of the handler */

/* The signals whose default is that nothing happens. */
static const int candidates[] = { SIGURG, SIGWINCH };

static void on_child(int signal)
{
	uint64_t one = 1;
	int saved = errno;

	(void)signal;
	(void)!write(stop_fd, &one, sizeof(one));
	errno = saved;
}

static bool has_signal(pid_t pid, pid_t tid, const char *field, int signal)
{
	char text[64];

	return program_status(pid, tid, field, text, sizeof(text)) &&
	       strtoull(text, NULL, 16) >> (signal - 1) & 1;
}

static bool is_free(pid_t pid, const pid_t *tids, size_t count, int signal)
{
	if (has_signal(pid, tids[0], "SigCgt", signal))
		return false;
	for (size_t i = 0; i < count; i++)
		if (has_signal(pid, tids[i], "SigBlk", signal) &&
		    !program_has_our_thread(pid, tids[i]))
			return false;
	return true;
}

int watch_stall_open(pid_t pid, char *why, size_t n, struct watch_stall **out)
{
	struct watch_stall *h = calloc(1, sizeof(*h));
	pid_t *tids = calloc(THREADS_MAX, sizeof(*tids));
	size_t count = tids ? program_threads(pid, tids, THREADS_MAX) : 0;

	if (!h || !count) {
		snprintf(why, n, "it has ended");
		free(tids);
		free(h);
		return -ESRCH;
	}
	h->pid = pid;
	for (size_t i = 0; i < sizeof(candidates) / sizeof(*candidates) && !h->signal; i++)
		if (is_free(pid, tids, count, candidates[i]))
			h->signal = candidates[i];
	free(tids);
	if (!h->signal) {
		snprintf(why, n, "it uses both SIGURG and SIGWINCH");
		free(h);
		return -EBUSY;
	}
	*out = h;
	return 0;
}

int watch_stall_signal(const struct watch_stall *h)
{
	return h->signal;
}

static size_t find(const struct watch_stall *h, pid_t tid)
{
	size_t i = 0;

	while (i < h->count && h->tids[i] != tid)
		i++;
	return i;
}

static int add(struct watch_stall *h, pid_t tid)
{
	if (find(h, tid) < h->count)
		return 0;
	if (h->count == h->room) {
		size_t room = h->room ? 2 * h->room : 64;
		pid_t *tids = reallocarray(h->tids, room, sizeof(*tids));
		if (!tids)
			return -ENOMEM;
		h->tids = tids;
		struct stalled_thread *stalled = reallocarray(h->stalled, room, sizeof(*stalled));
		if (!stalled)
			return -ENOMEM;
		h->stalled = stalled;
		h->room = room;
	}
	h->tids[h->count++] = tid;
	return 0;
}

/* One that was created of a traced thread is traced already. */
static int seize(struct watch_stall *h, pid_t tid)
{
	if (find(h, tid) < h->count)
		return 0;
	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACECLONE) == 0)
		return add(h, tid);
	int err = -errno;
	return err == -ESRCH || program_tracer(h->pid, tid) == getpid() ? 0 : err;
}

static int seize_all(struct watch_stall *h, pid_t *tids)
{
	size_t before = SIZE_MAX;

	for (int round = 0; round < ROUNDS_MAX && h->count != before; round++) {
		size_t count = program_threads(h->pid, tids, THREADS_MAX);
		before = h->count;
		for (size_t i = 0; i < count; i++) {
			int err = seize(h, tids[i]);
			if (err)
				return err;
		}
	}
	return h->count ? 0 : -ESRCH;
}

int watch_stall_trace(struct watch_stall *h, char *why, size_t n)
{
	struct sigaction action = { .sa_handler = on_child, .sa_flags = SA_RESTART };
	pid_t *tids = calloc(THREADS_MAX, sizeof(*tids));
	int err = tids ? 0 : -ENOMEM;

	stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!err && stop_fd < 0)
		err = -errno;
	if (!err) {
		sigaction(SIGCHLD, &action, &h->before);
		h->is_tracing = true;
		err = seize_all(h, tids);
	}
	free(tids);
	if (err == -EPERM)
		program_explain_refusal(h->pid, why, n);
	else if (err)
		snprintf(why, n, "it cannot be traced: %s", strerror(-err));
	return err;
}

void watch_stall_wait(struct watch_stall *h, int fd, int timeout_ms)
{
	struct pollfd fds[] = { { .fd = fd, .events = POLLIN },
				{ .fd = stop_fd, .events = POLLIN } };
	uint64_t times;

	(void)h;
	poll(fds, 2, timeout_ms);
	if (fds[1].revents)
		(void)!read(stop_fd, &times, sizeof(times));
}

static void forget(struct watch_stall *h, pid_t tid)
{
	size_t i = find(h, tid);

	if (i < h->count)
		h->tids[i] = h->tids[--h->count];
}

static bool is_stop_signal(int signal)
{
	return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

static void take_stop(struct watch_stall *h, pid_t tid, int status)
{
	int event = status >> 16;
	int signal = WSTOPSIG(status);

	/* A thread that was just created; without memory for it, it is not detached at the end. */
	if (add(h, tid))
		ptrace(PTRACE_DETACH, tid, NULL, NULL);
	else if (event == PTRACE_EVENT_STOP && is_stop_signal(signal))
		ptrace(PTRACE_LISTEN, tid, NULL, NULL);
	else if (event)
		ptrace(PTRACE_CONT, tid, NULL, NULL);
	else if (signal == h->signal)
		h->stalled[h->stalled_count++] =
			(struct stalled_thread){ .tid = tid, .since_ns = clock_now_ns() };
	else
		ptrace(PTRACE_CONT, tid, NULL, (void *)(intptr_t)signal);
}

static void take(struct watch_stall *h, pid_t tid, int status)
{
	if (WIFSTOPPED(status)) {
		take_stop(h, tid, status);
		return;
	}
	forget(h, tid);
	if (tid != h->pid)
		return;
	h->has_ended = true;
	h->status = status;
}

static bool is_of_process(const struct watch_stall *h, pid_t tid)
{
	return find(h, tid) < h->count || tid == h->pid || !tgkill(h->pid, tid, 0);
}

/* Other children of this command are waited for elsewhere: then each thread is asked. */
static void look_at_each(struct watch_stall *h)
{
	int status;

	for (size_t i = h->count; i--;)
		if (i < h->count &&
		    waitpid(h->tids[i], &status, __WALL | __WNOTHREAD | WNOHANG) > 0)
			take(h, h->tids[i], status);
}

size_t watch_stall_look(struct watch_stall *h)
{
	const int flags = WEXITED | WSTOPPED | WNOHANG | __WALL | __WNOTHREAD;
	siginfo_t info;
	int status;

	for (;;) {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, flags | WNOWAIT) || !info.si_pid)
			break;
		if (!is_of_process(h, info.si_pid)) {
			look_at_each(h);
			break;
		}
		if (waitpid(info.si_pid, &status, __WALL | __WNOTHREAD | WNOHANG) <= 0)
			break;
		take(h, info.si_pid, status);
	}
	return h->stalled_count;
}

bool watch_stall_has(const struct watch_stall *h, pid_t tid)
{
	for (size_t i = 0; i < h->stalled_count; i++)
		if (h->stalled[i].tid == tid)
			return true;
	return false;
}

uint64_t watch_stall_go(struct watch_stall *h)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < h->stalled_count; i++) {
		ptrace(PTRACE_CONT, h->stalled[i].tid, NULL, NULL);
		sum += clock_now_ns() - h->stalled[i].since_ns;
	}
	h->stalled_count = 0;
	return sum;
}

bool watch_stall_has_ended(const struct watch_stall *h, int *status)
{
	if (h->has_ended)
		*status = h->status;
	return h->has_ended;
}

static bool wait_for(pid_t tid, int *status, int looks)
{
	struct pollfd stopped = { .fd = stop_fd, .events = POLLIN };
	uint64_t times;

	for (;;) {
		pid_t got = waitpid(tid, status, __WALL | WNOHANG);
		if (got || !looks--)
			return got == tid;
		/* What was written before would make each look one of no time. */
		if (poll(&stopped, 1, 1) > 0)
			(void)!read(stop_fd, &times, sizeof(times));
	}
}

/* A signal that is on its way is passed on, and the one that stalls has no effect. */
static void detach(struct watch_stall *h, pid_t tid, int looks)
{
	bool is_ending = ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0;
	int status;

	/*
	 * Until the end of a thread is waited for, its process does not end. The first thread ends
	 * after the others, and the caller waits for it.
	 */
	if ((is_ending && tid == h->pid) || !wait_for(tid, &status, looks))
		return;
	if (!WIFSTOPPED(status)) {
		take(h, tid, status);
		return;
	}
	int signal = status >> 16 || WSTOPSIG(status) == h->signal ? 0 : WSTOPSIG(status);
	/* One that was killed is traced still: the next round waits for its end. */
	if (!ptrace(PTRACE_DETACH, tid, NULL, (void *)(intptr_t)signal))
		forget(h, tid);
}

/* A thread that was just created is traced, and its first stop may still come. */
static void add_traced(struct watch_stall *h)
{
	pid_t *tids = calloc(THREADS_MAX, sizeof(*tids));
	size_t count = tids ? program_threads(h->pid, tids, THREADS_MAX) : 0;

	for (size_t i = 0; i < count; i++)
		if (find(h, tids[i]) == h->count && program_tracer(h->pid, tids[i]) == getpid())
			add(h, tids[i]);
	free(tids);
}

static void detach_all(struct watch_stall *h, int looks)
{
	for (size_t i = h->count; i--;)
		if (i < h->count)
			detach(h, h->tids[i], looks);
}

void watch_stall_leave(struct watch_stall *h)
{
	if (!h->is_tracing)
		return;
	h->is_tracing = false;
	watch_stall_go(h);
	for (int round = 0; round < ROUNDS_MAX; round++) {
		add_traced(h);
		if (!h->count)
			break;
		watch_stall_look(h);
		watch_stall_go(h);
		detach_all(h, round < ROUNDS_SLOW ? LOOKS_MAX : 0);
		watch_stall_look(h);
	}
	sigaction(SIGCHLD, &h->before, NULL);
}

static void release(struct watch_stall *h)
{
	free(h->tids);
	free(h->stalled);
	free(h);
}

static struct watch_stall *late; /* with threads that have not stopped yet */

/* True: the first thread has ended. */
static bool let_late(int *status)
{
	struct watch_stall *h = late;

	add_traced(h);
	detach_all(h, 0);
	if (h->count && !h->has_ended)
		return false;
	bool has_ended = watch_stall_has_ended(h, status);
	late = NULL;
	session_late = NULL;
	release(h);
	return has_ended;
}

void watch_stall_close(struct watch_stall *h)
{
	if (!h)
		return;
	watch_stall_leave(h);
	if (stop_fd >= 0)
		close(stop_fd);
	stop_fd = -1;
	if (!h->count || h->has_ended || late) {
		release(h);
		return;
	}
	late = h;
	session_late = let_late;
}
