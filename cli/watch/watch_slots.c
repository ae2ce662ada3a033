/* SPDX-License-Identifier: MIT */
/* watch_slots.c - see watch_slots.h. */
#include "cli/watch/watch_slots.h"

#include "cli/observe/event_stats.h"

#include <errno.h>

int watch_slots_add(struct watch_slots *slots, struct trapline *t, uint64_t address, size_t len,
		    enum trapline_access access, const struct trapline_event_opts *opts)
{
	if (slots->count == WATCH_REGISTERS)
		return -ENOSPC;
	int err = trapline_watch(t, address, len, access, opts, &slots->event[slots->count]);
	if (err >= 0)
		slots->rest[slots->count++] = address;
	return err < 0 ? err : 0;
}

int watch_slots_move(const struct watch_slots *slots, size_t slot, uint64_t address, size_t len)
{
	struct trapline_event *event = slots->event[slot];
	int err = len ? trapline_event_aim(event, address, len) :
			trapline_event_move(event, address);

	/* The move failed in some threads and left the event disabled; the next move repairs it. */
	if (err == -EIO)
		trapline_event_enable(event);
	return err;
}

size_t watch_slots_find(const struct watch_slots *slots, const struct trapline_event *event)
{
	size_t i = 0;

	while (i < slots->count && slots->event[i] != event)
		i++;
	return i;
}

void watch_slots_stats(const struct watch_slots *slots, struct run_end *end)
{
	for (size_t i = 0; i < slots->count; i++)
		event_stats_add(slots->event[i], end);
}
