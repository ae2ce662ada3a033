/* SPDX-License-Identifier: MIT */
/* target.c - opening and closing a target, its rings, and what a forked child must release. */
#include "core/target.h"
#include "core/create.h"
#include "core/explain.h"
#include "core/opts_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/own_fd.h"
#include "base/own_proc.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "record/layout.h"
#include "trap/dispatch.h"

#define RECORDS_BYTES_DEFAULT (4u << 20)
#define RECORDS_BYTES_MIN (64u << 10)
#define RECORDS_BYTES_MAX (1u << 30)

_Static_assert(sizeof(struct record) <= CODE_RECORD_BYTES, "a slot");

static void close_and_forget(int *fd)
{
	if (*fd >= 0)
		sys_close(*fd);
	*fd = -1;
}

/*
 * A forked child has copies of all descriptors, which would keep the parent's events armed after
 * the parent has closed them. It closes the copies, and disables nothing.
 */
static void let_go_in_child(void)
{
	trap_forked();
	for (int i = 0; i < EVENT_MAX; i++) {
		struct trapline_event *ev = &event_table[i];
		size_t n = ev->roots.count * ev->roots.fds_per_root;

		if (ev->state == EVENT_FREE)
			continue;
		while (n--)
			close_and_forget(&ev->roots.fds[n]);
		close_and_forget(&ev->control_fd);
		close_and_forget(&ev->storage_fd);
		close_and_forget(&ev->amount_fd);
		if (!ev->target)
			continue;
		close_and_forget(&ev->target->ring.fd);
		close_and_forget(&ev->target->epoll_fd);
		close_and_forget(&ev->target->pid_fd);
		close_and_forget(&ev->target->timer_fd);
		for (int c = 0; c < ev->target->perf.count; c++)
			close_and_forget(&ev->target->perf.rings[c].fd);
	}
}

static void add_fork_handler(void)
{
	pthread_atfork(NULL, NULL, let_go_in_child);
}

static int watch_descriptor(struct trapline *t, int fd, uint32_t what)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = what };

	/* Both are in the same table. */
	return (int)sys_of_fd(SYS_epoll_ctl, t->epoll_fd, EPOLL_CTL_ADD, fd & ~OWN_FD_FAR, &event,
			      0);
}

static int check_process(pid_t pid)
{
	struct task_list list = { 0 };
	int is_leader = 0;

	if (!own_proc_is_mounted())
		return failed(-EOPNOTSUPP, FAILED_TARGET, OWN_PROC_REMEDY);
	int err = tasks_read(pid, &list);

	for (size_t i = 0; i < list.count; i++)
		is_leader |= list.tids[i] == pid;
	tasks_free(&list);
	if (err)
		return failed(err, FAILED_TARGET, NULL);
	return is_leader ? 0 : failed(-ESRCH, FAILED_TARGET, NULL);
}

static int open_descriptors(struct trapline *t)
{
	t->epoll_fd = own_fd_keep(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0, 0, 0);
	if (t->epoll_fd < 0)
		return failed(t->epoll_fd, FAILED_TARGET, "epoll_create1");
	t->pid_fd = own_fd_keep(SYS_pidfd_open, t->pid, 0, 0, 0, 0);
	/* A thread: EINVAL, since v6.16 or so ENOENT. */
	if (t->pid_fd == -EINVAL || t->pid_fd == -ENOENT)
		return failed(-EINVAL, FAILED_ARGUMENT, "the pid is a thread, not a process");
	if (t->pid_fd < 0)
		return failed(t->pid_fd, FAILED_TARGET, NULL);
	return watch_descriptor(t, t->pid_fd, WAKE_GONE);
}

TRAPLINE_API int trapline_open(pid_t pid, const struct trapline_open_opts *opts,
			       struct trapline **out)
{
	static pthread_once_t fork_handler = PTHREAD_ONCE_INIT;
	uint32_t bytes = RECORDS_BYTES_DEFAULT;
	struct trapline_open_opts o;

	failed_forget();
	if (!out || pid < 0)
		return failed(-EINVAL, FAILED_ARGUMENT, "pid is negative or out is NULL");
	int err = opts_copy(&o, sizeof(o), opts);
	if (err)
		return err;
	if (o.records_bytes)
		bytes = o.records_bytes;
	if (bytes & (bytes - 1) || bytes < RECORDS_BYTES_MIN || bytes > RECORDS_BYTES_MAX)
		return failed(-EINVAL, FAILED_ARGUMENT,
			      "records_bytes must be a power of two from 64 KiB to 1 GiB");
	if (o.flags & ~TRAPLINE_NO_BPF)
		return failed(-EINVAL, FAILED_ARGUMENT, "unknown flag");

	pid_t self = sys_getpid();
	err = check_process(pid ? pid : self);
	if (err)
		return err;
	/* In the agent a thread of Trapline does it, and malloc() would make an arena for it. */
	struct trapline *t = memory_map(sizeof(*t));
	if (memory_failed(t))
		return failed(-ENOMEM, FAILED_TARGET, NULL);
	t->pid = pid ? pid : self;
	t->owner_pid = self;
	ids_read(t->pid, &t->ids);
	t->flags = o.flags;
	t->records_bytes = bytes;
	t->ring.fd = -1;
	t->epoll_fd = -1;
	t->pid_fd = -1;
	t->timer_fd = -1;
	pthread_mutex_init(&t->lock, NULL);
	pthread_mutex_init(&t->ring_lock, NULL);
	err = open_descriptors(t);
	if (err) {
		trapline_close(t);
		return err;
	}
	pthread_once(&fork_handler, add_fork_handler);
	*out = t;
	return 0;
}

void target_drop_descriptors(struct trapline *t)
{
	close_and_forget(&t->epoll_fd);
	close_and_forget(&t->pid_fd);
}

/* The memory stays where a thread may still write to it: one that a debugger stops, perhaps. */
static void close_code_ring(struct trapline *t)
{
	if (t->code_reader.slots.slots && !t->code_ring_stays)
		memory_unmap(t->code_reader.slots.slots, t->records_bytes);
}

TRAPLINE_API void trapline_close(struct trapline *t)
{
	if (!t)
		return;
	for (int i = 0; i < EVENT_MAX; i++)
		if (event_table[i].target == t)
			event_close(&event_table[i]);
	ringbuf_close(&t->ring);
	perf_rings_close(&t->perf);
	close_code_ring(t);
	close_and_forget(&t->pid_fd);
	close_and_forget(&t->timer_fd);
	close_and_forget(&t->epoll_fd);
	pthread_mutex_destroy(&t->lock);
	pthread_mutex_destroy(&t->ring_lock);
	memory_unmap(t, sizeof(*t));
}

/* How late a record from a perf ring, or of a probe, may be reported. */
#define LOOK_EVERY_NS 10000000

static int start_timer(struct trapline *t)
{
	struct itimerspec every = { { 0, LOOK_EVERY_NS }, { 0, LOOK_EVERY_NS } };

	if (t->timer_fd >= 0)
		return 0;

	t->timer_fd = own_fd_keep(SYS_timerfd_create, CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC,
				  0, 0, 0);
	if (t->timer_fd < 0)
		return failed(t->timer_fd, FAILED_RING, "timerfd_create");
	sys_of_fd(SYS_timerfd_settime, t->timer_fd, 0, &every, NULL, 0);
	return watch_descriptor(t, t->timer_fd, WAKE_TIMER);
}

static int open_perf_rings(struct trapline *t)
{
	if (t->perf.count)
		return 0;
	int err = perf_rings_open(&t->perf, t->records_bytes / 4);
	if (err)
		return failed(err, FAILED_RING, NULL);
	for (int i = 0; i < t->perf.count; i++)
		if (t->perf.rings[i].fd >= 0)
			watch_descriptor(t, t->perf.rings[i].fd, WAKE_RECORDS);
	return start_timer(t);
}

static int open_ring(struct trapline *t)
{
	if (t->ring.fd >= 0)
		return 0;
	int err = ringbuf_open(&t->ring, t->records_bytes);
	return err ? err : watch_descriptor(t, t->ring.fd, WAKE_RECORDS);
}

static int open_code_ring(struct trapline *t)
{
	if (t->code_reader.slots.slots)
		return 0;
	void *slots = memory_map(t->records_bytes);
	if (memory_failed(slots))
		return failed(-ENOMEM, FAILED_RING, NULL);
	int err = start_timer(t);
	if (err) {
		memory_unmap(slots, t->records_bytes);
		return err;
	}
	t->code_reader.slots = (struct hit_slots){
		.ring = &t->code_ring,
		.slots = slots,
		.slot_bytes = (CODE_RECORD_BYTES + 8u),
		.count = t->records_bytes / (CODE_RECORD_BYTES + 8u),
	};
	hit_ring_begin(&t->code_reader.slots);
	return 0;
}

int target_need_ring(struct trapline *t, uint32_t mechanism)
{
	pthread_mutex_lock(&t->ring_lock);
	int err = mechanism == TRAPLINE_BY_RING	 ? open_perf_rings(t) :
		  mechanism == TRAPLINE_BY_PROBE ? open_code_ring(t) :
						   open_ring(t);
	pthread_mutex_unlock(&t->ring_lock);
	return err;
}

TRAPLINE_API int trapline_fd(struct trapline *t)
{
	return t->ring.fd >= 0 || t->perf.count || t->code_reader.slots.slots ? t->epoll_fd :
										-ENODATA;
}
