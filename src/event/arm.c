/* SPDX-License-Identifier: MIT */
/*
 * arm.c - open an event in every thread in scope, while threads are created and die.
 *
 * The kernel inherits an event only to threads created after it was opened, by threads that carry
 * it. So: list the threads, open in each, and list again until nothing new appears. A thread that
 * appears late may have been created before its parent was armed, and then it must be opened. Or it
 * was created after, and has inherited already. Nothing shows which. It is opened with the number
 * of its round, its *class*. No thread of round k can have inherited an event of round k, since the
 * list of the round was complete before its first open. The program or ring that sees two classes
 * in one thread rejects one of them (program_load.c, ring.c).
 */
#include "event/arm.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/tasks.h"
#include "event/aim.h"
#include "event/attr.h"
#include "event/event.h"
#include "event/limit.h"
#include "event/table.h"

#define ROUNDS_MAX 1000
#define ROOTS_FIRST 1024
#define QUIET_ROUNDS 2 /* rounds in a row that must find nothing new */
#define QUIET_PAUSE_NS 1000000

/* Thread ids already handled: open addressing, at most half full. */
struct tid_set {
	pid_t *slots;
	size_t mask;
	size_t count;
};

static size_t set_slot(const struct tid_set *set, pid_t tid)
{
	size_t i = (uint32_t)tid * 2654435761u & set->mask;

	while (set->slots[i] && set->slots[i] != tid)
		i = (i + 1) & set->mask;
	return i;
}

static void set_free(struct tid_set *set)
{
	if (set->slots)
		memory_unmap(set->slots, (set->mask + 1) * sizeof(pid_t));
	set->slots = NULL;
}

static int set_grow(struct tid_set *set)
{
	struct tid_set bigger = { .mask = set->slots ? 2 * set->mask + 1 : 4095 };
	void *p = memory_map((bigger.mask + 1) * sizeof(pid_t));

	if (memory_failed(p))
		return memory_error(p);
	bigger.slots = p;
	bigger.count = set->count;
	for (size_t i = 0; set->slots && i <= set->mask; i++)
		if (set->slots[i])
			bigger.slots[set_slot(&bigger, set->slots[i])] = set->slots[i];
	set_free(set);
	*set = bigger;
	return 0;
}

/* 1 when tid was not there before, 0 when it was, or -errno. */
static int set_add(struct tid_set *set, pid_t tid)
{
	if (!set->slots || 2 * set->count > set->mask) {
		int err = set_grow(set);
		if (err)
			return err;
	}
	size_t i = set_slot(set, tid);
	if (set->slots[i])
		return 0;
	set->slots[i] = tid;
	set->count++;
	return 1;
}

static int roots_grow(struct event_roots *roots)
{
	size_t capacity = roots->capacity ? 2 * roots->capacity : ROOTS_FIRST;
	size_t fd_bytes = roots->fds_per_root * sizeof(int);
	void *fds = memory_map(event_roots_bytes(roots, capacity));

	if (memory_failed(fds) || roots->grown == ROOTS_GROWN_MAX) {
		if (!memory_failed(fds))
			memory_unmap(fds, event_roots_bytes(roots, capacity));
		return -ENOMEM;
	}
	uint32_t *classes = (void *)((char *)fds + capacity * fd_bytes);
	if (roots->capacity) {
		memcpy(fds, roots->fds, roots->count * fd_bytes);
		memcpy(classes, roots->classes, roots->count * sizeof(uint32_t));
		roots->before[roots->grown++] = roots->fds;
	}
	atomic_set(&roots->fds, (int *)fds);
	atomic_set(&roots->classes, classes);
	roots->capacity = capacity;
	return 0;
}

int event_reserve(struct trapline_event *ev, size_t threads)
{
	int err = 0;

	while (!err && ev->roots.capacity < threads)
		err = roots_grow(&ev->roots);
	return err;
}

static int open_one(const struct trapline_event *ev, uint32_t part, pid_t tid, int cpu)
{
	struct perf_event_attr attr;

	event_attr_for_part(ev, part, &attr);
	for (;;) {
		int fd = event_open_fd(&attr, tid, cpu);
		if (fd != -EMFILE || event_limit_raise_once())
			return fd;
	}
}

static void close_fds(int *fds, size_t n)
{
	while (n--)
		sys_close(fds[n]);
}

/*
 * Open all parts in one thread. Enabled at once after being prepared. A thread that is created
 * while the parent is disabled starts disabled, and a later ENABLE can miss a grandchild whose
 * clone() is under way.
 */
static int open_root(struct trapline_event *ev, pid_t tid, uint32_t class, event_prepare prepare)
{
	struct event_roots *roots = &ev->roots;
	uint32_t cpus = roots->fds_per_root / ev->part_count;

	if (roots->count == roots->capacity) {
		int err = roots_grow(roots);
		if (err)
			return err;
	}
	int *fds = roots->fds + roots->count * roots->fds_per_root;
	for (uint32_t i = 0; i < roots->fds_per_root; i++) {
		int cpu = roots->is_per_cpu ? (int)(i % cpus) : -1;

		fds[i] = open_one(ev, i / cpus, tid, cpu);
		if (fds[i] == -ENODEV && cpu >= 0) /* that CPU is offline */
			fds[i] = -1;
		else if (fds[i] < 0) {
			int err = fds[i];
			close_fds(fds, i);
			return err;
		}
		int err = fds[i] < 0 || !prepare ? 0 : prepare(ev, fds[i], i / cpus, class, cpu);
		if (err) {
			close_fds(fds, i + 1);
			return err;
		}
	}
	int enable = !event_opens_enabled(ev) && (ev->wanted || event_parks(ev));
	for (uint32_t i = 0; enable && i < roots->fds_per_root; i++)
		sys_ioctl(fds[i], PERF_EVENT_IOC_ENABLE, 0);
	roots->classes[roots->count] = class;
	atomic_add(&roots->count, 1);
	roots->threads++;
	return 0;
}

/* One round: open in every listed thread that is new. Returns how many, or -errno. */
static int arm_round(struct trapline_event *ev, const struct task_list *list, struct tid_set *seen,
		     uint32_t class, event_prepare prepare)
{
	int opened = 0;

	for (size_t i = 0; i < list->count; i++) {
		int added = set_add(seen, list->tids[i]);
		if (added < 0)
			return added;
		if (!added)
			continue;
		int err = open_root(ev, list->tids[i], class, prepare);
		if (err == -ESRCH) /* it has exited in the meantime */
			continue;
		if (err)
			return err;
		opened++;
	}
	return opened;
}

/* Only the caller could create a thread in the meantime: one round is enough. */
static int is_caller_alone(const struct trapline_event *ev, const struct task_list *list)
{
	return ev->pid == sys_getpid() && list->count == 1 && list->tids[0] == sys_gettid();
}

static int arm_process(struct trapline_event *ev, event_prepare prepare)
{
	struct task_list list = { 0 };
	struct tid_set seen = { 0 };
	int quiet = 0;
	int err = 0;

	for (uint32_t round = 0; round < ROUNDS_MAX && quiet < QUIET_ROUNDS; round++) {
		if (quiet) {
			struct timespec pause = { 0, QUIET_PAUSE_NS };
			sys_nap(&pause);
		}
		err = tasks_read(ev->pid, &list);
		if (err)
			break;
		int opened = arm_round(ev, &list, &seen, round, prepare);
		if (opened < 0) {
			err = opened;
			break;
		}
		quiet = opened ? 0 : quiet + 1;
		if (is_caller_alone(ev, &list))
			quiet = QUIET_ROUNDS;
	}
	set_free(&seen);
	tasks_free(&list);
	if (!err && quiet < QUIET_ROUNDS)
		err = -EAGAIN;
	return !err && !ev->roots.count ? -ESRCH : err;
}

static int arm_threads(struct trapline_event *ev, const pid_t *tids, size_t count,
		       event_prepare prepare)
{
	struct task_list list = { (pid_t *)(uintptr_t)tids, count, 0 };
	struct tid_set seen = { 0 };
	int opened = arm_round(ev, &list, &seen, 0, prepare);

	set_free(&seen);
	if (opened < 0)
		return opened;
	return opened ? 0 : -ESRCH;
}

/*
 * Events that were enabled after their opening. A thread that was being cloned by a child in the
 * meantime took over the state "off" and was not yet in the list that ENABLE walks
 * (kernel/events/core.c, inherit_event()). By now it is.
 */
static void enable_missed(struct trapline_event *ev)
{
	size_t n = ev->roots.count * ev->roots.fds_per_root;

	for (size_t i = 0; i < n; i++)
		if (ev->roots.fds[i] >= 0)
			sys_ioctl(ev->roots.fds[i], PERF_EVENT_IOC_ENABLE, 0);
}

int event_try_arm(struct trapline_event *ev, const pid_t *tids, size_t tid_count,
		  event_prepare prepare)
{
	int err = ev->scope == TRAPLINE_PROCESS ? arm_process(ev, prepare) :
						  arm_threads(ev, tids, tid_count, prepare);
	if (!err && (ev->wanted || event_parks(ev)) && !event_opens_enabled(ev))
		enable_missed(ev);
	return err;
}

int event_arm(struct trapline_event *ev, const pid_t *tids, size_t tid_count, event_prepare prepare)
{
	int err = event_try_arm(ev, tids, tid_count, prepare);

	if (err)
		event_disarm(ev);
	return err;
}

/*
 * Disable before close: a forked child, or a mapped ring, may have another reference and would keep
 * the event armed. A number at which that fails is not an event any more. The program has closed
 * it, with all that it does not know, and may have a file of its own there.
 */
void event_disarm(struct trapline_event *ev)
{
	struct event_roots *roots = &ev->roots;
	size_t n = roots->count * roots->fds_per_root;

	for (size_t i = 0; i < n; i++) {
		if (sys_ioctl(roots->fds[i], PERF_EVENT_IOC_DISABLE, 0) == 0)
			sys_close(roots->fds[i]);
	}
	event_roots_free(roots);
}
