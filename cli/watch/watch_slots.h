/* SPDX-License-Identifier: MIT */
/*
 * watch_slots.h - debug registers of a target that watch one address after another.
 *
 * Each slot is an event that is moved. An unused slot watches an address where memory is never
 * mapped, so that a pause can treat all slots alike.
 */
#ifndef WATCH_SLOTS_H
#define WATCH_SLOTS_H

#include "cli/watch/watch_expr.h"
#include "report/run/run.h"

/* An address below vm.mmap_min_addr with the alignment of this offset in an object. */
#define WATCH_REST(offset) (0x1000 + ((offset)&31))

struct watch_slots {
	struct trapline_event *event[WATCH_REGISTERS];
	uint64_t rest[WATCH_REGISTERS];
	size_t count;
};

/*
 * Adds a slot; address is also the one that it watches while unused. 0, -ENOSPC: no register is
 * left, or -errno.
 */
int watch_slots_add(struct watch_slots *slots, struct trapline *t, uint64_t address, size_t len,
		    enum trapline_access access, const struct trapline_event_opts *opts);
/*
 * Moves a slot to another address; len 0: the length stays. 0, or -errno: the watched address is
 * not known until the next move.
 */
int watch_slots_move(const struct watch_slots *slots, size_t slot, uint64_t address, size_t len);
/* The slot of an event; slots->count: none. */
size_t watch_slots_find(const struct watch_slots *slots, const struct trapline_event *event);
void watch_slots_stats(const struct watch_slots *slots, struct run_end *end);

#endif
