/* SPDX-License-Identifier: MIT */
/*
 * heap_draw.h - which blocks are sampled of all blocks alike: each has the same chance.
 *
 * The chance is 1 / N. N follows from the time that samples take, from how many blocks the program
 * allocates, and from the budget. It changes slowly, and never because of what a block is: so an
 * error in one of many blocks is found with a chance that can be computed.
 */
#ifndef HEAP_DRAW_H
#define HEAP_DRAW_H

#include <stdbool.h>
#include <stdint.h>

/* family: heap_family.h. Not in a handler. */
void heap_draw_start(uint64_t seed, void *family);

/* A number of this thread's own row. */
uint32_t heap_random(void);

/* The allocations of this thread until the next look; *is_drawn: there a block is sampled. */
uint32_t heap_draw_steps(uint32_t most, uint32_t *is_drawn);

/* One was sampled. */
void heap_draw_count(void);

/* N is computed again where it is time to. */
void heap_draw_pace(void);

#endif
