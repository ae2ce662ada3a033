/* SPDX-License-Identifier: MIT */
/*
 * heap.h - what the object that is preloaded for `trapline race --heap` offers to the
 * agent.
 *
 * It is a separate object, so that malloc() is interposed only if --heap is given. The
 * agent refers to it weakly.
 */
#ifndef AGENT_HEAP_HEAP_H
#define AGENT_HEAP_HEAP_H

#include "record/race_region.h"

/* The block around an address, frames as addresses. 0 or -ENOENT. AS-Safe. */
int trapline_heap_find(uint64_t address, struct race_heap *out);

/* Where to count blocks and stacks that had no room; what was lost so far is added. */
void trapline_heap_count_into(uint64_t *lost_blocks, uint64_t *lost_stacks);

#endif
