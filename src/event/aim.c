/* SPDX-License-Identifier: MIT */
/*
 * aim.c - events that a tool moves from address to address. Safe in a handler.
 *
 * Unlike event_move() nothing is kept for the case of failure: an event that cannot be put where
 * it is wanted is off. The kernel's MODIFY_ATTRIBUTES takes address, length, type and the
 * generation in sig_data in one call for all threads (Linux commit 3c25fc97f559, v5.17).
 */
#include "event/aim.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/hw_breakpoint.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "event/attr.h"
#include "event/event.h"
#include "event/limit.h"
#include "event/table.h"

int event_open_fd(struct perf_event_attr *attr, pid_t tid, int cpu)
{
	/* Another thread may make the call. */
	const pid_t of = tid || cpu >= 0 ? tid : sys_gettid();

	return own_fd_keep(SYS_perf_event_open, (long)(uintptr_t)attr, of, cpu, -1,
			   PERF_FLAG_FD_CLOEXEC);
}

/*
 * What changes an event in all threads runs where its descriptors are near: at once, and not call
 * by call.
 */
struct change {
	struct trapline_event *ev;
	const struct perf_event_attr *attr;
	struct task_names *names;
};

static long modify_near(void *arg)
{
	const struct change *c = arg;
	int err = 0;

	for (size_t i = 0; !err && i < c->ev->roots.count; i++)
		err = sys_ioctl(c->ev->roots.fds[i], PERF_EVENT_IOC_MODIFY_ATTRIBUTES,
				(uintptr_t)c->attr);
	return err;
}

static int modify(struct trapline_event *ev, const struct perf_event_attr *attr)
{
	struct change change = { .ev = ev, .attr = attr };

	return (int)own_fd_run(modify_near, &change);
}

static void describe(struct trapline_event *ev, uint64_t addr, uint32_t len)
{
	/* Hits on their way carry the old generation and are dropped as late. */
	atomic_add(&ev->generation, 1u);
	atomic_set(&ev->parts[0].addr, addr);
	ev->parts[0].len = len;
	ev->wanted = 1;
	ev->applied = 1;
}

static void describe_access(struct trapline_event *ev, uint64_t addr, uint32_t len,
			    enum trapline_access access, struct perf_event_attr *attr)
{
	describe(ev, addr, len);
	ev->access = access;
	if (access != TRAPLINE_EXECUTE)
		ev->attr.bp_type = access == TRAPLINE_WRITE ? HW_BREAKPOINT_W : HW_BREAKPOINT_RW;
	event_attr_for_part(ev, 0, attr);
	attr->disabled = 0;
}

int event_aim(struct trapline_event *ev, uint64_t addr, uint32_t len, enum trapline_access access)
{
	struct perf_event_attr attr;

	describe_access(ev, addr, len, access, &attr);
	int err = modify(ev, &attr);
	if (err)
		event_rest(ev);
	return err;
}

static int open_again(void *arg, pid_t tid)
{
	const struct change *c = arg;
	struct event_roots *roots = &c->ev->roots;
	struct perf_event_attr attr = *c->attr; /* the kernel may write its size there */

	if (roots->count == roots->capacity)
		return -ENFILE;
	int fd = event_open_fd(&attr, tid, -1);
	if (fd == -EMFILE && !event_limit_raise_once())
		fd = event_open_fd(&attr, tid, -1);
	if (fd < 0)
		return fd == -ESRCH ? 0 : fd; /* it has ended */
	roots->fds[roots->count++] = fd;
	return 0;
}

static long open_all(void *arg)
{
	struct change *c = arg;

	return tasks_each(c->ev->pid, c->names, open_again, c);
}

int event_aim_again(struct trapline_event *ev, uint64_t addr, uint32_t len,
		    enum trapline_access access, struct task_names *names)
{
	struct perf_event_attr attr;
	struct change change = { ev, &attr, names };

	describe_access(ev, addr, len, access, &attr);
	int err = (int)own_fd_run(open_all, &change);
	if (err)
		event_let_go(ev);
	return err;
}

static long disable_all(void *arg)
{
	const struct trapline_event *ev = arg;

	for (size_t i = 0; i < ev->roots.count; i++)
		sys_ioctl(ev->roots.fds[i], PERF_EVENT_IOC_DISABLE, 0);
	return 0;
}

void event_pause(struct trapline_event *ev)
{
	ev->wanted = 0;
	ev->applied = 0;
	own_fd_run(disable_all, ev);
}

void event_rest(struct trapline_event *ev)
{
	atomic_add(&ev->generation, 1u);
	event_pause(ev);
}

void event_retire(struct trapline_event *ev)
{
	atomic_add(&ev->generation, 1u);
}

int event_aim_self(struct trapline_event *ev, uint64_t addr)
{
	struct perf_event_attr attr;

	if (ev->roots.count) {
		int err = event_aim(ev, addr, sizeof(long), TRAPLINE_EXECUTE);
		if (err != -EBADF)
			return err;
		ev->roots.count = 0; /* the program has closed what it does not know */
	}
	describe(ev, addr, sizeof(long));
	event_attr_for_part(ev, 0, &attr);
	attr.disabled = 0;
	int fd = event_open_fd(&attr, 0, -1);
	if (fd < 0)
		return fd;
	ev->roots.fds[0] = fd;
	ev->roots.count = 1;
	return 0;
}

/* A descriptor is closed only while it is still an event: the program may have closed all. */
static long close_all(void *arg)
{
	struct trapline_event *ev = arg;
	uint64_t id;

	for (size_t i = 0; i < ev->roots.count; i++) {
		int fd = ev->roots.fds[i];

		if (sys_ioctl(fd, PERF_EVENT_IOC_ID, (uintptr_t)&id))
			continue;
		sys_ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
		sys_close(fd);
	}
	ev->roots.count = 0;
	return 0;
}

void event_let_go(struct trapline_event *ev)
{
	atomic_add(&ev->generation, 1u);
	own_fd_run(close_all, ev);
}

void event_free(struct trapline_event *ev)
{
	event_roots_free(&ev->roots);
	event_give(ev);
}

/* As event_let_go(), in a forked child: the events are the parent's and continue. */
void event_forget_copies(struct trapline_event *ev)
{
	uint64_t id;

	for (size_t i = 0; i < ev->roots.count; i++)
		if (!sys_ioctl(ev->roots.fds[i], PERF_EVENT_IOC_ID, (uintptr_t)&id))
			sys_close(ev->roots.fds[i]);
	ev->roots.count = 0;
}
