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

/* The allocations of this thread until the one that is sampled; at least 1. */
uint32_t heap_draw_steps(void);

/* So many pass until contexts are looked up again, after a row of calls; 0: none. */
uint32_t heap_draw_nap(uint32_t row);

/* N. */
uint32_t heap_draw_mean(void);

/* One was sampled. */
void heap_draw_count(void);

/* N and the length of naps are computed again where it is time to. */
void heap_draw_pace(void);

#endif
