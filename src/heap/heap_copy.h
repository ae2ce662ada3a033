/* SPDX-License-Identifier: MIT */
/*
 * heap_copy.h - which block a copy begins in, whose end is out of it.
 *
 * memcpy() and its like access the end of a large range first. That may lie beside another block,
 * or outside of the pool.
 */
#ifndef HEAP_COPY_H
#define HEAP_COPY_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "heap/heap_pool.h"

struct heap_copy {
	const struct heap_slot *slot;
	uintptr_t address; /* the first byte that is wrong */
	size_t bytes;
	bool is_write;
};

/* Not in a handler. */
void heap_copy_start(void);

/* An instruction of memcpy(), memmove() or memset(), which access nothing but their ranges. */
bool heap_copy_has(uint64_t pc);

/*
 * The fault of an access to `address` was made by memcpy(), memmove() or memset(), of a range that
 * begins in a block, or beside one, and leaves it.
 */
bool heap_copy_find(const ucontext_t *context, uintptr_t address, struct heap_copy *out);

#endif
