/* SPDX-License-Identifier: MIT */
/* race_memory.h - the kind of memory of a race. race.h has what the agent calls. */
#ifndef RACE_MEMORY_H
#define RACE_MEMORY_H

#include <stdint.h>

#include "record/race_region.h"

/*
 * Determines memory and heap, or that it is a mapping shared with others, from the address of the
 * record. The stack pointers are those of both threads; 0: there is no second.
 */
void race_tell_memory(struct race_record *record, uint64_t first_sp, uint64_t second_sp);

#endif
