/* SPDX-License-Identifier: MIT */
/* heap_context.h - which blocks are worth a sample: the first of each calling context. */
#ifndef HEAP_CONTEXT_H
#define HEAP_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

/* 0 or -errno. Not in a handler. */
int heap_context_start(uint64_t first);

/* All contexts are new. */
void heap_context_forget(uint64_t first);

/*
 * Is the block that the caller of the function with this frame allocates one to sample? *nth: which sample
 * of its context it is, from 1 on. The budget has been asked.
 */
bool heap_context_wants(const uint64_t *frame, uint32_t *nth);

#endif
