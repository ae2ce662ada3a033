/* SPDX-License-Identifier: MIT */
/* race_last.h - the last stalls of a run, for trapline to read when the run has failed. */
#ifndef RACE_LAST_H
#define RACE_LAST_H

#include <stdint.h>

#include <trapline/trapline.h>

#include "race/stall/race_slot.h"

struct race_code;

/* The stall begins now. For race_last_end(). */
uint64_t race_last_begin(const struct trapline_hit *hit, const struct race_slot *slot,
			 const struct race_code *code);
void race_last_end(uint64_t stall);

#endif
