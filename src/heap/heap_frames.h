/* SPDX-License-Identifier: MIT */
/*
 * heap_frames.h - the return addresses of a stack, by rules that are read once.
 *
 * Where the return address of a function is follows from its unwind table (.eh_frame): so many
 * bytes above the stack pointer, or above the frame pointer. That is read once for each return
 * address and kept. A frame costs some nanoseconds from then on, and libgcc's unwinder, which reads
 * the tables each time, ten times as much. What no rule here can state is left to libgcc.
 */
#ifndef HEAP_FRAMES_H
#define HEAP_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#define HEAP_WALK_FRAMES 16u
#define HEAP_WALK_NOWHERE UINT32_MAX

struct heap_walk {
	const uint64_t *frame;
	uint64_t frames[HEAP_WALK_FRAMES];  /* return addresses, innermost first */
	uint32_t offsets[HEAP_WALK_FRAMES]; /* where they are: bytes from the frame on */
	uint32_t count;			    /* 0: the stack was not understood */
	bool is_regular;		    /* each return address is where it is expected */
};

/*
 * The callers of the function whose frame address this is. That function must have a frame pointer.
 * AS-Safe.
 */
void heap_walk(struct heap_walk *walk, const uint64_t *frame);

/* Code may be elsewhere from now on: an object was unloaded. AS-Safe. */
void heap_walk_forget(void);

#endif
