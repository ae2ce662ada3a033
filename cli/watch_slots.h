/* SPDX-License-Identifier: MIT */
/*
 * watch_slots.h - debug registers of a target that watch one place after another.
 *
 * Each is an event that is moved. One that has nothing to watch rests at an address where no memory
 * can be, so that pausing and going on need not know of it.
 */
#ifndef CLI_WATCH_SLOTS_H
#define CLI_WATCH_SLOTS_H

#include "cli/watch.h"

/* Below vm.mmap_min_addr, and aligned as a place at this offset of an object. */
#define WATCH_REST(offset) (0x1000 + ((offset)&31))

struct watch_slots {
	struct trapline_event *event[WATCH_REGISTERS];
	uint64_t rest[WATCH_REGISTERS];
	size_t count;
};

/*
 * One more, at an address that it rests at too. 0; -ENOSPC: no register is left; -errno.
 */
int watch_slots_add(struct watch_slots *slots, struct trapline *t, uint64_t address,
		    size_t len, enum trapline_access access,
		    const struct trapline_event_opts *opts);
/*
 * To another place; len 0: of the same length. 0 or -errno: it watches nothing that is known, until
 * the next move.
 */
int watch_slots_move(const struct watch_slots *slots, size_t slot, uint64_t address, size_t len);
/* Which one an event is; slots->count: none of them. */
size_t watch_slots_find(const struct watch_slots *slots,
			const struct trapline_event *event);
void watch_slots_stats(const struct watch_slots *slots, struct run_end *end);

#endif
