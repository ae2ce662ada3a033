/* SPDX-License-Identifier: MIT */
/*
 * heap_stacks.h - the stacks of calls of malloc(), each kept once, and found again
 * without unwinding.
 *
 * A walk costs some ten nanoseconds a frame. So a stack can be cached by the stack address of
 * the call: if the return addresses are still the same, so is the stack.
 */
#ifndef HEAP_STACKS_H
#define HEAP_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "record/race_region.h"

struct heap_stack {
	uint64_t hash; /* 0: free */
	uint32_t ready;
	uint32_t count;
	uint64_t frames[RACE_HEAP_FRAMES]; /* return addresses, innermost first */
};

struct heap_stacks;

/* is_cached: for callers that come often; it costs memory. NULL: no memory. */
struct heap_stacks *heap_stacks_new(bool is_cached);

/*
 * The stack of the function whose frame address this is, beginning with its caller: a number
 * above 0; 0: there is no room for another one. That function must have a frame pointer.
 */
uint32_t heap_stacks_here(struct heap_stacks *stacks, const uint64_t *frame);

/* NULL: none. Never changes. */
const struct heap_stack *heap_stacks_get(const struct heap_stacks *stacks, uint32_t number);

#endif
