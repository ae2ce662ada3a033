/* SPDX-License-Identifier: MIT */
/*
 * heap_innocent.h - reads beside a block that are not an error.
 *
 * String functions of libraries read whole vectors, at aligned addresses or where no page ends.
 * They use nothing of what lies beside the string. In all variants for processors that glibc has,
 * these reads are of four kinds:
 *
 *	1. Before the block, an aligned vector of 16 bytes or more, in the 64 aligned bytes that
 *	   have its first byte.
 *	2. Before the block, any vector in the few functions that read where the string begins
 *	   with what is before it.
 *	3. Behind the block, any vector. Of libc alone: also what begins in the block, since a
 *	   vector is taken in parts where a page ends, and the upper half of a vector whose lower
 *	   half begins there.
 *	4. Behind the block, a byte that libc reads in the aligned word in which the block and a
 *	   string end.
 *
 * Copies read nothing but their range.
 */
#ifndef HEAP_INNOCENT_H
#define HEAP_INNOCENT_H

#include <stdbool.h>

#include "code/insn/insn_back.h"
#include "heap/heap_pool.h"

/* Not in a handler: finds libc, and its functions as this processor has them. */
void heap_innocent_start(void);

bool heap_is_innocent_before(const struct insn_back_candidate *c, const struct heap_slot *slot);
bool heap_is_innocent_behind(const struct insn_back_candidate *c, const struct heap_slot *slot);

#endif
