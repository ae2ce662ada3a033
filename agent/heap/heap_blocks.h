/* SPDX-License-Identifier: MIT */
/*
 * heap_blocks.h - the heap block around an address, and which threads allocated and freed
 * it.
 *
 * A table of fixed size in memory of the process itself, so that a forked child has its
 * own. No lock: it is written by every thread that allocates, in signal handlers too, and
 * read inside SIGTRAP. A freed block stays known until its row is needed.
 */
#ifndef HEAP_BLOCKS_H
#define HEAP_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

struct heap_event {
	uint64_t time_ns; /* CLOCK_MONOTONIC; 0: it did not happen */
	uint32_t tid;
	uint32_t stack; /* of heap_stacks.h; 0: not known */
};

struct heap_block {
	uint64_t start;
	uint64_t size; /* as it was asked for */
	struct heap_event allocated;
	struct heap_event freed;
};

struct heap_blocks;

/* Rows are taken from the kernel when they are first used. NULL: no memory. */
struct heap_blocks *heap_blocks_new(uint32_t groups_log2);

/*
 * 0; -ENOSPC: no row was free where it belongs. Only the owner of the block knows it now.
 */
int heap_blocks_add(struct heap_blocks *blocks, uint64_t start, uint64_t size,
		    const struct heap_event *allocated);

/*
 * A block that was allocated then has no row. What was freed before is not found any more, since
 * that block may be there by now. heap_blocks_add() does it where it fails.
 */
void heap_blocks_lose(struct heap_blocks *blocks, uint64_t time_ns);

/*
 * Call before the block is really freed, while no other thread can own the address. 0;
 * -ENOENT: not known.
 */
int heap_blocks_free(struct heap_blocks *blocks, uint64_t start, const struct heap_event *freed);

/* It is not freed after all: realloc() failed. */
void heap_blocks_revive(struct heap_blocks *blocks, uint64_t start);

/* The block around an address: one that is in use, else the one freed last. 0 or -ENOENT. */
int heap_blocks_find(const struct heap_blocks *blocks, uint64_t address, struct heap_block *out);

#endif
