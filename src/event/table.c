/* SPDX-License-Identifier: MIT */
/* table.c - the fixed table of events. Rows are reused, never freed. */
#include <string.h>

#include "base/atomic.h"
#include "event/event.h"

struct trapline_event event_table[EVENT_MAX];

struct trapline_event *event_take(void)
{
	for (uint32_t i = 0; i < EVENT_MAX; i++) {
		struct trapline_event *ev = &event_table[i];
		uint32_t expected = EVENT_FREE;

		if (!atomic_cas(&ev->state, &expected, EVENT_OPENING))
			continue;
		uint32_t generation = ev->generation + 1;
		size_t from = offsetof(struct trapline_event, target);

		/* A late handler may read the row meanwhile: state and generation stay valid. */
		atomic_set(&ev->generation, generation);
		memset((char *)ev + from, 0, sizeof(*ev) - from);
		ev->first_generation = generation;
		ev->index = i;
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
	atomic_set(&ev->state, EVENT_FREE);
}
