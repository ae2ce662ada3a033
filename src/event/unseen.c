/* SPDX-License-Identifier: MIT */
/*
 * unseen.c - changes of a watched value that no hit reports: by system calls, by other processes,
 * through another mapping.
 *
 * What a store leaves is read in the kernel at its hit. So as long as no thread is in a hit, the
 * memory has the value that the last one reported. A store may be done and its hit not yet begun:
 * only what is found twice, with no run of the program in between, counts. Changes between two
 * looks are one.
 */
#include "event/unseen.h"

#include "base/atomic.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "event/control.h"
#include "event/event.h"

static int can_look(const struct trapline_event *ev)
{
	/* Where an access is reported before it, the last hit's value is the one before. */
#if defined(__x86_64__)
	return atomic_get(&ev->state) == EVENT_LIVE && event_is_data(ev) && ev->control &&
	       ev->mechanism == TRAPLINE_BY_BPF && ev->applied;
#else
	return 0;
#endif
}

static void look_at(struct trapline_event *ev, uint32_t part)
{
	struct event_place *place = event_place_at(ev, part, ev->parts[part].addr);
	struct event_unseen *u = &ev->unseen[part];
	uint64_t seen = atomic_get(&ev->control->seen);
	uint64_t last = place ? atomic_get(&place->last) : 0;
	uint64_t value = 0;

	if (!place ||
	    tasks_read_memory(ev->pid, place->addr, &value, place->len) != (ssize_t)place->len)
		return;
	if (value == last || atomic_get(&ev->control->seen) != seen) {
		u->is_found = 0;
		return;
	}
	if (!u->is_found || u->seen != seen) {
		*u = (struct event_unseen){ seen, 1 };
		return;
	}
	u->is_found = 0;
	/* So that the next hit's old value is the one that it found. */
	if (atomic_cas(&place->last, &last, value))
		counter_add(&ev->unseen_changes, 1);
}

void event_look_for_unseen(struct trapline_event *ev)
{
	for (uint32_t i = 0; can_look(ev) && i < ev->part_count; i++)
		look_at(ev, i);
}
