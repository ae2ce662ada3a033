/* SPDX-License-Identifier: MIT */
/*
 * race_outside.c - samples that come from outside, and, in a process that was attached
 * to, the signal that trapline has ended.
 *
 * trapline has clocks of the CPUs and sends SIGTRAP to the thread that runs
 * (race/host/race_ticks.c). A clock for each thread, opened here, would be set and cancelled at
 * each thread switch. The gate shows trapline when a sample is welcome.
 *
 * If trapline is killed, its clocks end with it, and no sample would ever come. So only trapline
 * has the read end of a pipe of this process, and the kernel sends a signal when that end is
 * closed. The thread that gets the signal then removes everything, even if all threads sleep.
 */
#include "race/race_outside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "event/event.h"
#include "race/race.h"
#include "race/race_budget.h"
#include "race/race_end.h"
#include "race/race_state.h"
#include "race/watch/race_watch_cpus.h"
#include "record/race_region.h"
#include "trap/dispatch.h"

/* From <asm-generic/fcntl.h>; <fcntl.h> has it for GNU only. */
#define SET_SIGNAL 10

struct race_gate *race_common_gate;

TRAP_PATH static uint64_t inode_of(int fd)
{
	struct stat st;

	return sys_of_fd(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH, 0) ? 0 : st.st_ino;
}

/* The program may have closed it and opened something else there. */
TRAP_PATH static void close_ours(void)
{
	int fd = race.hangup.fd;

	race.hangup.fd = 0;
	if (fd && inode_of(fd) == race.hangup.inode)
		sys_close(fd);
}

TRAP_PATH static void on_hangup(void)
{
	int is_over = atomic_get(&race.region->stop) != 0;

	race_end(is_over ? RACE_STEP_NONE : RACE_STEP_UNWATCHED, is_over ? 0 : -ECANCELED);
}

static long is_left(void *unused)
{
	struct pollfd end = { .fd = race.hangup.fd & ~OWN_FD_FAR, .events = POLLOUT };
	const struct timespec now = { 0, 0 };

	return race.hangup.fd && inode_of(race.hangup.fd) == race.hangup.inode &&
	       sys5(SYS_ppoll, &end, 1, &now, NULL, 0) == 1 && end.revents & POLLERR;
}

int race_outside_is_left(void)
{
	return own_fd_run(is_left, NULL) == 1;
}

static long open_hangup(void *unused)
{
	struct race_hangup *h = &race.hangup;
	int fds[2];
	int err = (int)sys2(SYS_pipe2, fds, O_CLOEXEC | O_NONBLOCK);

	if (err)
		return err;
	sys_close(fds[0]); /* through /proc the other end can be opened as often as is wanted */
	h->fd = own_fd_up(fds[1]); /* the program expects the lowest free one */
	h->inode = inode_of(h->fd);
	const int near = h->fd & ~OWN_FD_FAR;
	trap_hangup_fd = near;
	atomic_set(&trap_on_hangup, on_hangup);
	err = (int)sys3(SYS_fcntl, near, F_SETOWN, race.pid);
	if (!err)
		err = (int)sys3(SYS_fcntl, near, SET_SIGNAL, SIGTRAP);
	if (!err)
		err = (int)sys3(SYS_fcntl, near, F_SETFL, O_ASYNC | O_NONBLOCK);
	race.region->hangup_inode = h->inode;
	race.region->hangup_fd = h->fd;
	return err;
}

/* From now on a sample of trapline's is a hit of the first timer. */
static void open_gate(void)
{
	trap_had_ticks = 1;
	atomic_set(&trap_tick, race.timers[0]);
	race.gate = race_common_gate;
	race.gate->open_ns = 0;
	for (uint32_t i = 0; i < RACE_CPU_EVENTS; i++)
		race_cpu_await_nothing(i);
	race.gate->pid = (uint64_t)race.pid;
	if (race.flags & RACE_IS_LATE && !(race.flags & RACE_IS_FORKED))
		race.gate->pid = (uint64_t)race.region->settings.pid;
	atomic_set(&race.gate->magic, race.region->settings.gate_magic);
}

/* As /proc has it: the kernel writes it, no process. */
static int is_named(int fd, const char *name)
{
	char path[40] = "/proc/thread-self/fd/";
	char found[64];
	char digits[12];
	size_t at = sizeof("/proc/thread-self/fd/") - 1;
	size_t count = 0;
	long i = 0;

	for (uint32_t left = (uint32_t)fd; left || !count; left /= 10)
		digits[count++] = (char)('0' + left % 10);
	while (count)
		path[at++] = digits[--count];
	long n = sys4(SYS_readlinkat, AT_FDCWD, path, found, sizeof(found));
	while (i < n && name[i] && found[i] == name[i])
		i++;
	return i == n && !name[i];
}

int race_copy_descriptor(int pidfd, int number, const char *name)
{
	int fd = (int)sys3(SYS_pidfd_getfd, pidfd, number, 0);

	if (fd < 0 || is_named(fd, name))
		return fd;
	sys_close(fd);
	return -ENOENT;
}

/* A number may mean another event in the meantime. */
int race_copy_event(int pidfd, int number, uint64_t id)
{
	int fd = race_copy_descriptor(pidfd, number, "anon_inode:[perf_event]");
	uint64_t found = 0;

	if (fd < 0)
		return fd;
	if (sys_ioctl(fd, PERF_EVENT_IOC_ID, (uintptr_t)&found) || found != id) {
		sys_close(fd);
		return -ENOENT;
	}
	return own_fd_up(fd);
}

/*
 * A process continues when the command is killed: with the clocks, so that its next sample takes
 * all away. Without (a security module may forbid it) that waits for its next thread, or its end.
 */
static long keep_clocks(void *unused)
{
	const struct race_settings *set = &race.region->settings;
	uint32_t count = set->clock_count < RACE_CLOCKS ? set->clock_count : RACE_CLOCKS;
	int pidfd = (int)sys2(SYS_pidfd_open, race.region->share.observer, 0);

	for (uint32_t i = 0; pidfd >= 0 && i < count; i++) {
		int fd = race_copy_event(pidfd, set->clock_fds[i], set->clock_ids[i]);

		if (fd < 0)
			break;
		race.clocks.fds[race.clocks.count++] = fd;
	}
	if (pidfd >= 0)
		sys_close(pidfd);
	return 0;
}

TRAP_PATH static void drop_clocks(void)
{
	for (uint32_t i = 0; i < race.clocks.count; i++)
		sys_close(race.clocks.fds[i]);
	race.clocks.count = 0;
}

int race_outside_start(void)
{
	int is_late = (race.flags & RACE_IS_LATE) != 0;
	int err = is_late ? (int)own_fd_run(open_hangup, NULL) : 0;

	if (err || !(race.flags & RACE_HAS_TICKS))
		return err;
	open_gate();
	if (!is_late || race.flags & RACE_IS_FORKED)
		own_fd_run(keep_clocks, NULL);
	race_cpus_listen();
	return 0;
}

TRAP_PATH void race_gate_open_at(uint64_t ns)
{
	if (race.gate)
		atomic_set(&race.gate->open_ns, ns);
}

TRAP_PATH void race_gate_set(uint64_t now_ns)
{
	if (race.gate)
		race_gate_open_at(now_ns + race_budget_wait_ns(now_ns));
}

TRAP_PATH void race_outside_end(void)
{
	if (race.gate)
		atomic_set(&race.gate->magic, (uint64_t)0);
	atomic_set(&trap_tick, (struct trapline_event *)NULL);
	if (race.hangup.fd)
		atomic_set(&trap_on_hangup, (void (*)(void))NULL);
}

TRAP_PATH void race_outside_close(void)
{
	drop_clocks();
	close_ours();
}
