/* SPDX-License-Identifier: MIT */
/*
 * births.c - wait for the thread creations that are under way. Safe in a handler.
 *
 * A clone copies the attributes of an event first, and enters its copy in the list of children
 * last. What changes all children in between leaves that one out. But the cloning thread holds the
 * lock of its context all the while (kernel/events/core.c, perf_event_init_context()), and
 * perf_event_open() takes the lock of the context that it adds an event to. So after an event has
 * been opened in a thread, that thread has no copy under way that was begun before. The event
 * counts nothing, and is closed again.
 */
#include "event/births.h"

#include <errno.h>

#include "base/dummy_event.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "event/limit.h"

static int wait_for_thread(pid_t tid)
{
	int fd = dummy_event_open(tid);

	if (fd == -EMFILE && !event_limit_raise_once())
		fd = dummy_event_open(tid);
	if (fd >= 0)
		sys_close(fd);
	return fd < 0 && fd != -ESRCH ? fd : 0; /* it has ended, and so has its last clone */
}

/*
 * The kernel lists threads in the order of their thread creations, so both lists are gone through
 * once.
 */
static int is_listed(const struct task_list *list, size_t *at, pid_t tid)
{
	for (size_t i = *at; i < list->count; i++)
		if (list->tids[i] == tid) {
			*at = i + 1;
			return 1;
		}
	return 0;
}

/* One reading of the list. Returns whether it is another one than before, or -errno. */
static int wait_for_listed(struct births *births, pid_t pid, enum births_of of)
{
	const struct task_list *before = &births->lists[births->now];
	struct task_list *list = &births->lists[!births->now];
	pid_t caller = sys_gettid();
	uint32_t born = 0;
	size_t in_before = 0;
	size_t in_elders = 0;
	int err = tasks_read(pid, list);

	births->now = !births->now;
	births->others = 0;
	for (size_t i = 0; i < list->count; i++) {
		pid_t tid = list->tids[i];
		int is_elder = is_listed(&births->elders, &in_elders, tid);
		int is_new = !is_listed(before, &in_before, tid);

		born += (uint32_t)is_new;
		if (tid == caller)
			continue; /* it bears none just now */
		births->others++;
		int waits = of == BIRTHS_OF_ALL || (of == BIRTHS_OF_NEW ? is_new : !is_elder);
		int failed = waits ? wait_for_thread(tid) : 0;
		if (!err)
			err = failed;
	}
	births->born += born;
	return err ? err : born || list->count != before->count;
}

/*
 * The kernel ends its list where a thread ends while it is being listed (fs/proc/base.c,
 * next_tid()).
 */
#define READINGS_MAX 4

int births_wait(struct births *births, pid_t pid, enum births_of of)
{
	births->born = 0;
	int err = wait_for_listed(births, pid, of);

	for (int i = 1; err > 0 && i < READINGS_MAX; i++)
		err = wait_for_listed(births, pid, BIRTHS_OF_NEW);
	return err > 0 || err == -ESRCH ? 0 : err; /* the process has ended */
}

void births_note_elders(struct births *births)
{
	struct task_list none = births->elders;

	births->elders = births->lists[births->now];
	births->lists[births->now] = none;
}

void births_free(struct births *births)
{
	tasks_free(&births->lists[0]);
	tasks_free(&births->lists[1]);
	tasks_free(&births->elders);
}
