/* SPDX-License-Identifier: MIT */
/*
 * heap_pool.h - the slots of sampled blocks: pages for one block each, between pages without
 * access.
 *
 * The slots are of some sizes. Their sum is fixed and stated: a process cannot get larger by more
 * than that, and by what the rows of slots take.
 */
#ifndef HEAP_POOL_H
#define HEAP_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table_size.h"
#include "heap/heap.h"

#define HEAP_CLASSES 5u
#define HEAP_CLASSES_MOST 10u		      /* where growth is searched */
#define HEAP_PAGE_SLOTS TABLE_SIZE(4096u, 2u) /* of one page: those of the first size */

enum heap_slot_state {
	HEAP_SLOT_NEW, /* no block was there */
	HEAP_SLOT_LIVE,
	HEAP_SLOT_CHANGING, /* a thread allocates or frees it */
	HEAP_SLOT_FREED,
};

struct heap_slot_event {
	uint64_t time_ns; /* CLOCK_MONOTONIC; 0: it did not happen */
	int32_t tid;
	uint32_t stack; /* of heap_stacks.h; 0: not known */
};

struct heap_slot {
	uint32_t state;		 /* enum heap_slot_state */
	uint32_t family;	 /* enum heap_family */
	uint32_t is_open_behind; /* the page behind it has access, since an error was reported */
	uint32_t watched;	 /* so many bytes before it, by a debug register */
	uint32_t watched_behind; /* so many bytes behind it */
	uint32_t is_told_before; /* an error in the bytes before it was reported */
	uint32_t is_told_behind;
	uint32_t is_protected; /* the program itself changed the access of its pages */
	uint32_t is_drawn;     /* it is one of all blocks alike, and not of a context */
	uint32_t is_held;      /* by a thread that changes its pages: heap_pages.h */
	uint32_t has_copy;     /* of the bytes of its freed block, which have no page */
	uint32_t is_shut;      /* by mprotect(2), where a guard region was refused */
	uint32_t is_old;       /* the page behind it has access: heap_old.h */
	uint32_t size_class;   /* never changes, like the next three */
	uint32_t number;       /* among those of its size */
	uintptr_t base;
	size_t room;	 /* bytes from base on; then a page without access */
	uintptr_t start; /* of the block */
	size_t bytes;	 /* as they were asked for */
	uint32_t weight; /* so many allocations it stands for */
	int32_t owner;	 /* the process that allocated it */
	struct heap_slot_event allocated;
	struct heap_slot_event freed;
};

/* 0 or -errno. Not in a handler. */
int heap_pool_start(struct heap_range *range, uint64_t *pool_bytes);

/*
 * The slot that was freed first and has the room; its state is CHANGING. NULL: none, *is_full
 * states why.
 */
struct heap_slot *heap_pool_pop(size_t bytes, bool *is_full);
/*
 * How many allocations of this size shall go by for one that is sampled, so that slots are left
 * however long blocks stay. 0: none is left.
 */
uint32_t heap_pool_thin(size_t bytes);
/* A slot whose state is FREED or NEW. */
void heap_pool_push(struct heap_slot *slot);

/* The slot an address is in, or in the page behind which it lies; NULL: the first page of all. */
struct heap_slot *heap_pool_slot(uintptr_t address);
/* The slot that begins after the page without access that the address is in; NULL: none. */
struct heap_slot *heap_pool_next(const struct heap_slot *slot);

/* Slots of a size that were taken once, from the first on; and one of them. */
uint32_t heap_pool_used(uint32_t size_class);
struct heap_slot *heap_pool_at(uint32_t size_class, uint32_t number);

/* Calls for each slot that has or had a block. */
void heap_pool_each(void (*call)(struct heap_slot *slot, void *arg), void *arg);

#endif
