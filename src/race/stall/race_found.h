/* SPDX-License-Identifier: MIT */
/* race_found.h - what a stall has found becomes a record: both sides, the values, the memory. */
#ifndef RACE_FOUND_H
#define RACE_FOUND_H

#include <stdint.h>

#include <trapline/trapline.h>

#include "race/stall/race_slot.h"
#include "record/race_region.h"

struct race_code;

/* Records a race; code is that of hit->ip. second: NULL, no thread was seen. */
void race_found_record(const struct trapline_hit *hit, const struct race_slot *slot,
		       const struct race_code *code, const struct race_caught *second,
		       uint64_t now_value);

/* The access that the thread of the hit is about to make. */
void race_fill_first(struct race_record *record, const struct race_target *target,
		     const struct trapline_hit *hit, const struct race_code *code);

/*
 * One side of a race: the thread, its stack, and the instruction at pc, which is in `code`. The
 * side may be in shared memory: nothing is read back from there.
 */
void race_side_fill(struct race_side *side, const struct trapline_hit *hit, uint64_t pc,
		    unsigned int length, const struct race_code *code);

/* What libc touches counts as an access of its caller, unless that is a runtime. */
int race_is_called_by_included(const struct trapline_hit *hit);

#endif
