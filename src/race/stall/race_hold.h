/* SPDX-License-Identifier: MIT */
/* race_hold.h - a thread is stalled before its access while the address is watched. */
#ifndef RACE_HOLD_H
#define RACE_HOLD_H

#include <stdint.h>
#include <sys/types.h>

#include <trapline/trapline.h>

#include "race/stall/race_slot.h"
#include "record/race_region.h"

struct race_module;
struct race_spot;
struct race_spots;

/*
 * The thread is before the instruction at hit->ip. 0: it was stalled. -EBUSY: no watch was free;
 * -EFAULT: its own stack or a constant; -ENOENT: there is nothing to stall for. `spot`: what a
 * sweep knows of the location, one of `spots`; or NULL.
 */
int race_hold(const struct trapline_hit *hit, const struct race_spots *spots,
	      struct race_spot *spot);
/* Which bytes of the access are watched: a naturally aligned piece, by chance when it has several. */
void race_choose_part(struct race_target *target);
/* 1: a watch is free, for this moment. */
int race_has_free_slot(void);
/* No second access has been seen yet, and nothing else ends the stall before its time. */
int race_slot_waits(const struct race_slot *slot);
void race_slot_free(struct race_slot *slot);
/* For arm() of a watch whose traps the kernel counts from now on. */
void race_slot_count_again(struct race_slot *slot);
/*
 * Take a slot from an owner that has left it: a thread that has ended or jumped out of its stall, or
 * the calling thread `caller` (0: do not ask). 1: it is SLOT_TAKEN and its watch is off.
 */
int race_slot_reclaim(struct race_slot *slot, pid_t caller, uint64_t now_ns);
/* The access that the thread of the hit is about to make. */
void race_fill_first(struct race_record *record, const struct race_target *target,
		     const struct trapline_hit *hit, const struct race_module *module);
void race_side_fill(struct race_side *side, const struct trapline_hit *hit, uint64_t pc,
		    unsigned int length, const struct race_module *module);
int race_is_called_by_included(const struct trapline_hit *hit);

#endif
