/* SPDX-License-Identifier: MIT */
/*
 * probe_owner.c - see probe_owner.h.
 *
 * It is a child with the memory and the descriptors of the command. So it takes any system call as
 * it is, and a descriptor that it makes is the command's. When the command is killed, the child has
 * the last reference to its descriptors: it ends, and the kernel removes the probes in its name.
 *
 * It is in a session of its own, with all signals blocked, under another name. So what kills the
 * command by its name or its group spares it. A cgroup that is killed as a whole, and the OOM
 * killer (__oom_kill_process()), take both, and may leave a probe.
 *
 * It has the libc of the command and no thread of it. So it makes system calls, and nothing else.
 */
#include "host/probe_owner.h"

#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "event/uprobe/uprobe_owner.h"

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES 65536u
#define LOOK_NS 100000000 /* whether it still lives */

enum {
	OWNER_RESTS,
	OWNER_ASKED,
	OWNER_LEAVES
};

static struct {
	pthread_mutex_t lock;
	pid_t command;
	pid_t pid; /* 0: not begun; -1: not to be had, or ended */
	int command_fd;
	int wake_fd;
	uint32_t state;
	long number;
	const long *args;
	long result;
} owner = { .lock = PTHREAD_MUTEX_INITIALIZER };

static long make_call(long number, const long args[5])
{
	return sys5(number, args[0], args[1], args[2], args[3], args[4]);
}

/* ---- in the child ---- */

static void answer(void)
{
	uint64_t wakes;

	sys_read(owner.wake_fd, &wakes, sizeof(wakes));
	if (atomic_get(&owner.state) != OWNER_ASKED)
		return;
	owner.result = make_call(owner.number, owner.args);
	atomic_set(&owner.state, (uint32_t)OWNER_RESTS);
	sys3(SYS_futex, &owner.state, FUTEX_WAKE_PRIVATE, 1);
}

static int serve(void *arg)
{
	struct pollfd wait[] = { { .fd = owner.wake_fd, .events = POLLIN },
				 { .fd = owner.command_fd, .events = POLLIN } };

	sys2(SYS_prctl, PR_SET_NAME, "probe owner");
	sys0(SYS_setsid);
	while (atomic_get(&owner.state) != OWNER_LEAVES) {
		sys5(SYS_ppoll, wait, 2, NULL, NULL, 0);
		if (wait[0].revents)
			answer();
		else if (wait[1].revents)
			break;
	}
	return 0;
}

/* ---- in the command ---- */

/* The command closes what is left itself: it is not being killed. */
static void end(void)
{
	const uint64_t one = 1;

	if (owner.pid <= 0 || owner.command != getpid())
		return;
	uprobe_owner = NULL;
	atomic_set(&owner.state, (uint32_t)OWNER_LEAVES);
	sys_write(owner.wake_fd, &one, sizeof(one));
	waitpid(owner.pid, NULL, __WCLONE);
	owner.pid = -1;
}

/* Without a signal at its end: a wait for any child does not see it. */
static pid_t begin_child(void)
{
	void *stack = memory_map(STACK_BYTES);
	sigset_t all;
	sigset_t before;

	if (memory_failed(stack))
		return -1;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid_t pid = clone(serve, (char *)stack + STACK_BYTES, CLONE_VM | CLONE_FILES, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return pid < 0 ? -1 : pid;
}

static bool is_there(void)
{
	if (owner.pid)
		return owner.pid > 0;
	owner.command = getpid();
	owner.command_fd = (int)sys2(SYS_pidfd_open, owner.command, 0);
	owner.wake_fd = eventfd(0, EFD_CLOEXEC);
	owner.pid = owner.command_fd < 0 || owner.wake_fd < 0 ? -1 : begin_child();
	if (owner.pid > 0)
		atexit(end);
	return owner.pid > 0;
}

static int is_gone(void)
{
	return waitpid(owner.pid, NULL, WNOHANG | __WCLONE) != 0;
}

static long ask(long number, const long args[5])
{
	const struct timespec step = { 0, LOOK_NS };
	const uint64_t one = 1;

	owner.number = number;
	owner.args = args;
	atomic_set(&owner.state, (uint32_t)OWNER_ASKED);
	sys_write(owner.wake_fd, &one, sizeof(one));
	while (atomic_get(&owner.state) == OWNER_ASKED) {
		if (sys4(SYS_futex, &owner.state, FUTEX_WAIT_PRIVATE, OWNER_ASKED, &step) ==
			    -ETIMEDOUT &&
		    is_gone()) {
			owner.pid = -1;
			return make_call(number, args);
		}
	}
	return owner.result;
}

/* A child of the command has a copy of what is here, and no owner. */
static long call(long number, const long args[5])
{
	long result;

	if (owner.pid && owner.command != getpid())
		return make_call(number, args);
	pthread_mutex_lock(&owner.lock);
	result = is_there() ? ask(number, args) : make_call(number, args);
	pthread_mutex_unlock(&owner.lock);
	return result;
}

void probe_owner_use(void)
{
	uprobe_owner = call;
}

void probe_owner_begin(void)
{
	pthread_mutex_lock(&owner.lock);
	is_there();
	pthread_mutex_unlock(&owner.lock);
}
