/* SPDX-License-Identifier: MIT */
/* act_stop.c - see act_stop.h. */
#include "cli/act/act_stop.h"

#include "base/clock.h"
#include "cli/launch/program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STOP_WAIT_NS 1000000000u
#define STOP_STEP_NS 20000
/* A hit of the last moment may stop the process after this command has ended. */
#define GUARD_LOOKS 200
#define GUARD_STEP_NS 1000000
#define GUARD_COPY_LOOKS 20

bool act_is_stopped(pid_t pid, pid_t tid)
{
	char state = program_thread_state(pid, tid);

	return state == 'T' || state == 't';
}

int act_wait_stopped(pid_t pid, pid_t tid)
{
	const struct timespec step = { 0, STOP_STEP_NS };
	uint64_t end = clock_now_ns() + STOP_WAIT_NS;

	do {
		char state = program_thread_state(pid, tid);

		if (state == 'T' || state == 't')
			return 0;
		if (!state || state == 'Z' || state == 'X')
			return -ESRCH;
		nanosleep(&step, NULL);
	} while (clock_now_ns() < end);
	return -ETIMEDOUT;
}

static void guard_wait(int parent_fd)
{
	struct pollfd wait = { .fd = parent_fd, .events = POLLIN };

	while (poll(&wait, 1, -1) < 0 && errno == EINTR)
		;
}

/* Fields of proc(5). */
enum {
	STAT_PARENT = 4,
	STAT_START = 22,
	STAT_EXIT_SIGNAL = 38
};

static bool is_copy(pid_t pid, pid_t target, int64_t since)
{
	int64_t parent;
	int64_t start;
	int64_t signal;

	return program_stat(pid, pid, STAT_PARENT, &parent) && parent == target &&
	       program_stat(pid, pid, STAT_EXIT_SIGNAL, &signal) && !signal &&
	       program_stat(pid, pid, STAT_START, &start) && start >= since;
}

/*
 * snapshot.c makes a copy of the target. If the command is killed between the creation of the copy
 * and the option that ties its life to the command, the copy would run on. It is known as a child
 * that began since and reports its end by no signal.
 */
static void guard_kill_copies(pid_t target, int64_t since)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	while (proc && (entry = readdir(proc))) {
		pid_t pid = atoi(entry->d_name);

		if (pid > 0 && is_copy(pid, target, since))
			kill(pid, SIGKILL);
	}
	if (proc)
		closedir(proc);
}

static _Noreturn void guard_run(pid_t target, int target_fd, int parent_fd)
{
	const struct timespec step = { 0, GUARD_STEP_NS };
	int64_t since = 0;
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	setsid();
	program_stat(getpid(), getpid(), STAT_START, &since);
	guard_wait(parent_fd);
	for (int i = 0; i < GUARD_LOOKS; i++) {
		if (i % GUARD_COPY_LOOKS == 0)
			guard_kill_copies(target, since);
		if (program_thread_state(target, target) == 'T')
			syscall(SYS_pidfd_send_signal, target_fd, SIGCONT, NULL, 0);
		nanosleep(&step, NULL);
	}
	_exit(0);
}

/* The two descriptors become 0 and 1, and all others are closed. */
static void guard_keep(int *target_fd, int *parent_fd)
{
	int a = fcntl(*target_fd, F_DUPFD, 3);
	int b = fcntl(*parent_fd, F_DUPFD, 3);

	dup2(a, 0);
	dup2(b, 1);
	close_range(2, ~0u, 0);
	*target_fd = 0;
	*parent_fd = 1;
}

int act_guard_start(struct act_guard *g, pid_t target)
{
	int parent_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	int target_fd = (int)syscall(SYS_pidfd_open, target, 0);
	int err = parent_fd < 0 || target_fd < 0 ? -errno : 0;

	g->pid = err ? 0 : fork();
	if (!err && !g->pid) {
		guard_keep(&target_fd, &parent_fd);
		guard_run(target, target_fd, parent_fd);
	}
	if (!err && g->pid < 0)
		err = -errno;
	g->pid = err ? 0 : g->pid;
	if (parent_fd >= 0)
		close(parent_fd);
	if (target_fd >= 0)
		close(target_fd);
	return err;
}

void act_guard_end(struct act_guard *g)
{
	if (!g->pid)
		return;
	kill(g->pid, SIGKILL);
	waitpid(g->pid, NULL, 0);
	g->pid = 0;
}
