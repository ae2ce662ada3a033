/* SPDX-License-Identifier: MIT */
/* table.c - the fixed table of events. Rows are reused, never freed. */
#include "event/table.h"

#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "event/event.h"

struct trapline_event event_table[EVENT_MAX];
struct event_steps event_steps;

#define WAIT_STEP_NS 50000
#define WAIT_STEPS 40000 /* 2 s and more: a call that a signal handler interrupted does not end */

static __thread uint32_t entered __attribute__((tls_model("initial-exec")));

struct trapline_event *event_take(void)
{
	for (uint32_t i = 0; i < EVENT_MAX; i++) {
		struct trapline_event *ev = &event_table[i];
		uint32_t expected = EVENT_FREE;

		if (!atomic_cas(&ev->state, &expected, EVENT_OPENING))
			continue;
		uint32_t generation = ev->generation + 1;
		size_t from = offsetof(struct trapline_event, target);

		/*
		 * A late handler may read the row in the meantime: state and generation stay valid.
		 */
		atomic_set(&ev->generation, generation);
		memset((char *)ev + from, 0, sizeof(*ev) - from);
		ev->first_generation = generation;
		ev->index = i;
		atomic_set(&ev->users, 1u);
		ev->control_fd = -1;
		ev->storage_fd = -1;
		ev->amount_fd = -1;
		ev->filter_fd = -1;
		return ev;
	}
	return NULL;
}

void event_give(struct trapline_event *ev)
{
	atomic_add(&ev->generation, 1u);
	atomic_set(&ev->users, 0u); /* a late event_enter() finds it closed */
	atomic_set(&ev->state, EVENT_FREE);
}

int event_enter(struct trapline_event *ev)
{
	uint32_t users = atomic_get(&ev->users);

	do
		if (!users)
			return -ESRCH;
	while (!atomic_cas(&ev->users, &users, users + 1));
	entered++;
	if (atomic_get(&ev->state) == EVENT_LIVE)
		return 0;
	event_leave(ev);
	return -ESRCH;
}

int event_enter_as(struct trapline_event *ev, uint32_t first_generation)
{
	int err = event_enter(ev);

	if (err || ev->first_generation == first_generation)
		return err;
	event_leave(ev);
	return -ESRCH;
}

void event_leave(struct trapline_event *ev)
{
	entered--;
	if (atomic_add(&ev->users, -1u) == 1)
		ev->release(ev);
}

void event_end(struct trapline_event *ev, void (*release)(struct trapline_event *ev))
{
	uint32_t generation = atomic_get(&ev->generation);

	ev->release = release;
	entered++;
	event_leave(ev);
	for (int i = 0; !entered && i < WAIT_STEPS; i++) {
		struct timespec step = { 0, WAIT_STEP_NS };

		if (atomic_get(&ev->generation) != generation)
			return;
		sys_nap(&step);
	}
}

void event_roots_free(struct event_roots *roots)
{
	size_t capacity = roots->capacity;
	void *fds = roots->fds;

	/*
	 * First: a child that another thread forks in the meantime reads the count before the
	 * array.
	 */
	atomic_set(&roots->count, 0);
	roots->fds = NULL;
	roots->classes = NULL;
	if (capacity)
		memory_unmap(fds, event_roots_bytes(roots, capacity));
	for (; roots->grown; roots->grown--) {
		capacity /= 2;
		memory_unmap(roots->before[roots->grown - 1], event_roots_bytes(roots, capacity));
	}
	roots->capacity = 0;
}
