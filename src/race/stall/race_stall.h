/* SPDX-License-Identifier: MIT */
/* race_stall.h - a thread is stalled before its access while the address is watched. */
#ifndef RACE_STALL_H
#define RACE_STALL_H

#include <stdint.h>
#include <sys/types.h>

#include <trapline/trapline.h>

#include "race/stall/race_slot.h"

struct race_spot;
struct race_spots;

/*
 * The thread is before the instruction at hit->ip. 0: it was stalled. -EBUSY: no watch was free;
 * -EFAULT: its own stack or a constant; -ENOENT: there is nothing to stall for. `spot`: what a
 * sweep knows of the location, one of `spots`; or NULL.
 */
int race_stall(const struct trapline_hit *hit, const struct race_spots *spots,
	       struct race_spot *spot);

/* No second access has been seen yet, and nothing else ends the stall before its time. */
int race_slot_waits(const struct race_slot *slot);

#endif
