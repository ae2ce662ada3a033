/* SPDX-License-Identifier: MIT */
/*
 * heap_growth.h - which blocks stay in use: of all blocks alike some are sampled, and each stands
 * for as many as one is drawn of.
 *
 * A sampled block lies in the pool, close to others and without guards: so free() knows it by its
 * address alone. What is sampled and in use when the process ends is summed up by stack.
 */
#ifndef HEAP_GROWTH_H
#define HEAP_GROWTH_H

#include "heap/heap.h"
#include "heap/heap_pool.h"

/* Also: is it the growth that is searched? */
void heap_growth_start(const struct heap_region *region);

/* A large block is sampled in any case, and stands for itself. AS-Safe, as all of these. */
uint32_t heap_growth_wants(const struct heap_request *r, uint32_t nth);
void *heap_growth_take(const struct heap_request *r, uint32_t nth);
void heap_growth_give(struct heap_slot *slot);
/* So many allocations were there by the N of now. */
void heap_growth_pay(uint32_t calls);

/* Into the region, at the end of the process. */
void heap_growth_tell(void);

#endif
