/* SPDX-License-Identifier: MIT */
/* start_search.c - see start_search.h. */
#include "cli/launch/start_search.h"

#include "base/grow.h"
#include "cli/launch/program.h"
#include "cli/launch/program_files.h"
#include "cli/launch/start.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENT(status) ((status) >> 16)

/* A thread. */
struct traced {
	pid_t tid;
	int signal; /* that it gets when it continues */
	bool is_stopped;
	bool has_begun;	      /* its first stop, by SIGSTOP, is over */
	bool is_asked;	      /* SIGSTOP is on its way */
	bool waits_for_vfork; /* in the kernel, where it does not stop */
};

static struct traced *traced;
static size_t traced_count;
static size_t traced_room;
static pid_t root;
static pid_t program;
static bool root_has_ended;
static bool is_over; /* only those in vfork() are left */
static int root_status;

/* grow_room() changes it by another type of pointer, which the analyzer does not follow. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wanalyzer-use-after-free"
static struct traced *find_traced(pid_t tid)
{
	for (size_t i = 0; i < traced_count; i++)
		if (traced[i].tid == tid)
			return &traced[i];
	return NULL;
}
#pragma GCC diagnostic pop

/* NULL: no memory. */
static struct traced *add_traced(pid_t tid)
{
	struct traced *t = find_traced(tid);

	if (t)
		return t;
	if (grow_room(traced, traced_count, traced_room))
		return NULL;
	t = &traced[traced_count++];
	*t = (struct traced){ .tid = tid };
	return t;
}

static void end_traced(pid_t tid, int status)
{
	struct traced *t = find_traced(tid);

	if (tid == root) {
		root_has_ended = true;
		root_status = status;
	}
	if (t)
		*t = traced[--traced_count];
}

static void resume(struct traced *t)
{
	t->is_stopped = false;
	ptrace(PTRACE_CONT, t->tid, NULL, (void *)(long)t->signal);
}

/*
 * A fork: the child is traced from its thread creation. An exec by a thread: it has the number of
 * the first one now.
 *
 * The kernel reports the stop of a child before the event of its parent where both are there, and
 * the child may run to its end in the meantime. One that has ended would be waited for without an
 * end.
 */
static void note_event(struct traced *t, int event)
{
	unsigned long message = 0;
	pid_t tid = t->tid;

	t->waits_for_vfork = event == PTRACE_EVENT_VFORK;
	if (ptrace(PTRACE_GETEVENTMSG, tid, NULL, &message))
		return;
	if (event == PTRACE_EVENT_EXEC && (pid_t)message != tid)
		end_traced((pid_t)message, 0);
	else if ((event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
		  event == PTRACE_EVENT_CLONE) &&
		 program_tracer((pid_t)message, (pid_t)message) == getpid())
		add_traced((pid_t)message);
}

/* What a wait reported. The event, or 0. */
static int note_status(pid_t tid, int status)
{
	siginfo_t info;

	if (!WIFSTOPPED(status)) {
		end_traced(tid, status);
		return 0;
	}
	struct traced *t = add_traced(tid);
	if (!t)
		return 0;
	bool is_first = !t->has_begun && !EVENT(status) && WSTOPSIG(status) == SIGSTOP;
	t->is_stopped = true;
	t->has_begun = true;
	t->signal = 0;
	if (EVENT(status))
		note_event(t, EVENT(status));
	/* A process that job control stops is continued: it cannot be recognised later. */
	else if (!is_first && !ptrace(PTRACE_GETSIGINFO, tid, NULL, &info))
		t->signal = WSTOPSIG(status);
	return EVENT(status);
}

static struct traced *find_running(void)
{
	for (size_t i = 0; i < traced_count; i++)
		if (!traced[i].is_stopped && !traced[i].waits_for_vfork)
			return &traced[i];
	return NULL;
}

/* Stops each that runs, and those which it starts in the meantime. */
static void stop_all(void)
{
	struct traced *t;
	int status;

	while ((t = find_running())) {
		/* A new one stops by itself. */
		if (t->has_begun && !t->is_asked) {
			t->is_asked = true;
			syscall(SYS_tkill, t->tid, SIGSTOP);
		}
		pid_t tid = waitpid(-1, &status, __WALL);
		if (tid < 0 && errno == EINTR)
			continue;
		if (tid < 0)
			return;
		note_status(tid, status);
		t = find_traced(tid);
		if (!t || !t->is_asked)
			continue;
		if (t->signal == SIGSTOP) {
			t->is_asked = false;
			t->signal = 0;
		} else {
			resume(t); /* to the stop that is on its way */
		}
	}
}

/* ---- the search ---- */

#define REFUSED_MAX 1024

/*
 * To read the names of a program takes up to seconds, in which the program is stopped: once for the
 * same files.
 */
static bool is_the_one(pid_t pid, bool (*is_wanted)(pid_t pid, void *arg), void *arg)
{
	static uint64_t refused[REFUSED_MAX];
	static size_t count;
	uint64_t key = program_files_key(pid);

	for (size_t i = 0; key && i < count && i < REFUSED_MAX; i++)
		if (refused[i] == key)
			return false;
	if (is_wanted(pid, arg))
		return true;
	if (key)
		refused[count++ % REFUSED_MAX] = key;
	return false;
}

static int run_search(bool (*is_wanted)(pid_t pid, void *arg), void *arg, pid_t *found)
{
	int status;

	while (traced_count) {
		pid_t tid = waitpid(-1, &status, __WALL);

		if (tid < 0 && errno == EINTR)
			continue;
		if (tid < 0)
			return -errno;
		int event = note_status(tid, status);
		/*
		 * What cannot be run to its entry point, such as a 32-bit program, is not the one.
		 */
		int err = event == PTRACE_EVENT_EXEC ? start_run_to_entry(tid, &status) : -ENOEXEC;
		if (!err && is_the_one(tid, is_wanted, arg)) {
			*found = tid;
			return 0;
		}
		if (err == -ECHILD)
			end_traced(tid, status);
		struct traced *t = find_traced(tid);
		if (t)
			resume(t);
	}
	return -ECHILD;
}

int start_search(pid_t command, bool (*is_wanted)(pid_t pid, void *arg), void *arg, pid_t *found)
{
	long options = PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK |
		       PTRACE_O_TRACEVFORK | PTRACE_O_TRACEVFORKDONE | PTRACE_O_TRACECLONE;

	root = command;
	program = command;
	*found = command;
	if (is_wanted(command, arg))
		return 0;
	if (ptrace(PTRACE_SETOPTIONS, command, NULL, (void *)options))
		return -errno;
	struct traced *t = add_traced(command);
	if (!t)
		return -ENOMEM;
	t->has_begun = true;
	resume(t);
	int err = run_search(is_wanted, arg, found);
	if (err)
		return err;
	program = *found;
	stop_all();
	return 0;
}

/*
 * One in vfork() stops when its child releases it, and is continued then. A SIGSTOP of Trapline
 * that was on its way is taken out first.
 */
static void tend(pid_t tid, int status)
{
	note_status(tid, status);
	struct traced *t = find_traced(tid);
	if (!WIFSTOPPED(status) || !t)
		return;
	if (t->is_asked && t->signal == SIGSTOP) {
		t->is_asked = false;
		t->signal = 0;
	}
	if (t->is_asked) {
		resume(t);
		return;
	}
	ptrace(PTRACE_DETACH, tid, NULL, (void *)(long)t->signal);
	*t = traced[--traced_count];
}

/* Without waiting: their children may take as long as they like. */
static void tend_all(void)
{
	int status;

	for (size_t i = traced_count; i-- > 0;) {
		pid_t tid = traced[i].tid;
		pid_t got = waitpid(tid, &status, __WALL | WNOHANG);

		if (got == tid)
			tend(tid, status);
		else if (got < 0 && errno == ECHILD)
			end_traced(tid, 0);
	}
}

bool start_search_has_ended(int *status)
{
	if (is_over)
		tend_all();
	if (root_has_ended)
		*status = root_status;
	return root_has_ended;
}

pid_t start_search_holds(void)
{
	if (is_over)
		tend_all();
	return is_over && traced_count ? traced[0].tid : 0;
}

void start_search_end(bool is_killed)
{
	for (size_t i = traced_count; i-- > 0;) {
		struct traced *t = &traced[i];

		if (is_killed)
			kill(t->tid, SIGKILL);
		else if (t->tid != program && t->is_stopped)
			ptrace(PTRACE_DETACH, t->tid, NULL, (void *)(long)t->signal);
		else if (t->tid != program)
			continue;
		*t = traced[--traced_count];
	}
	is_over = true;
}
