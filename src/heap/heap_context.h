/* SPDX-License-Identifier: MIT */
/*
 * heap_context.h - which blocks are worth a sample: the first of each calling context. heap_wants()
 * asks.
 */
#ifndef HEAP_CONTEXT_H
#define HEAP_CONTEXT_H

#include <stdint.h>

/* family: heap_family.h. 0 or -errno. Not in a handler. */
int heap_context_start(uint64_t first, void *family);

/* All contexts are new. */
void heap_context_forget(uint64_t first, void *family);

/* The calls of this thread that were not counted yet. */
void heap_context_end(void);

#endif
