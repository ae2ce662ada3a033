/* SPDX-License-Identifier: MIT */
/*
 * heap.c - the object that is preloaded for `trapline race --heap`: it interposes
 * malloc() and its family, of any allocator, and records each block with the thread and
 * the stack.
 *
 * It records the calls of these names. Calls of an allocator under other names are not
 * seen, nor are blocks that were allocated before this object was loaded. operator new is
 * seen, because it calls malloc().
 *
 * free() marks a block before it is released, and malloc() records it before it is returned. At
 * each moment the row of an address belongs to the thread that owns the block.
 */
#include "agent/heap/heap.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/heap/heap_blocks.h"
#include "agent/heap/next_malloc.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "base/table_size.h"
#include "guest/sanitizer.h"
#include "heap/heap_stacks.h"

#define EXPORTED __attribute__((visibility("default")))
/* Two million blocks in use at once. */
#define GROUPS_LOG2 TABLE_SIZE(17u, 0u)

/* The caller's stack is found from the frame of the function that it called. */
#define HERE ((const uint64_t *)__builtin_frame_address(0))

static struct heap_blocks *blocks;
static struct heap_stacks *stacks;
static uint64_t early_lost[2];
static uint64_t *lost_blocks = &early_lost[0];
static uint64_t *lost_stacks = &early_lost[1];

static __thread uint32_t own_tid;
static __thread uint32_t busy; /* in one of Trapline: what is called from there is not recorded */

/* Two threads at once find the same. Returns false while this thread is at it. */
static bool find_next(void)
{
	if (atomic_get(&next.is_complete))
		return true;
	if (busy)
		return false;
	busy++;
	if (!blocks && !stacks && !sanitizer_is_loaded()) {
		stacks = heap_stacks_new(true);
		blocks = heap_blocks_new(GROUPS_LOG2);
	}
	next_malloc_find();
	busy--;
	return true;
}

/* ---- noting ---- */

static uint32_t tid(void)
{
	if (!own_tid)
		own_tid = (uint32_t)sys_gettid();
	return own_tid;
}

static void note_event(struct heap_event *event, const uint64_t *frame)
{
	event->time_ns = clock_now_ns();
	event->tid = tid();
	event->stack = heap_stacks_here(stacks, frame);
	if (!event->stack)
		counter_add(lost_stacks, 1u);
}

static void *note(void *p, size_t bytes, const uint64_t *frame)
{
	struct heap_event event;

	if (!p)
		return p;
	/* By a handler that interrupted one of Trapline; or there was no memory for the tables. */
	if (busy || !blocks || !stacks) {
		counter_add(lost_blocks, 1u);
		if (blocks)
			heap_blocks_lose(blocks, clock_now_ns());
		return p;
	}
	busy++;
	note_event(&event, frame);
	if (heap_blocks_add(blocks, (uintptr_t)p, bytes, &event))
		counter_add(lost_blocks, 1u);
	busy--;
	return p;
}

static void note_free(void *p, const uint64_t *frame)
{
	struct heap_event event;

	if (!p || busy || !blocks || !stacks)
		return;
	busy++;
	note_event(&event, frame);
	heap_blocks_free(blocks, (uintptr_t)p, &event);
	busy--;
}

/* ---- what is called instead of them ---- */

EXPORTED void *malloc(size_t bytes)
{
	return find_next() ? note(next.malloc(bytes), bytes, HERE) : early_take(bytes);
}

EXPORTED void *calloc(size_t n, size_t size)
{
	/* The next one refuses what does not fit into a size_t. */
	return find_next() ? note(next.calloc(n, size), n * size, HERE) : early_take_all(n, size);
}

EXPORTED void free(void *p)
{
	if (early_has(p) || !find_next())
		return;
	note_free(p, HERE);
	next.free(p);
}

static void *realloc_early(void *p, size_t bytes)
{
	size_t there = p ? early_left(p) : 0;
	void *to = find_next() ? next.malloc(bytes) : early_take(bytes);

	if (to && there)
		memcpy(to, p, bytes < there ? bytes : there);
	return to;
}

EXPORTED void *realloc(void *p, size_t bytes)
{
	if (early_has(p) || !find_next())
		return note(realloc_early(p, bytes), bytes, HERE);
	note_free(p, HERE);
	void *to = next.realloc(p, bytes);
	if (!to && p && bytes && !busy && blocks)
		heap_blocks_revive(blocks, (uintptr_t)p);
	return note(to, bytes, HERE);
}

EXPORTED void *memalign(size_t alignment, size_t bytes)
{
	return find_next() ? note(next.memalign(alignment, bytes), bytes, HERE) : NULL;
}

EXPORTED void *aligned_alloc(size_t alignment, size_t bytes)
{
	return find_next() ? note(next.aligned_alloc(alignment, bytes), bytes, HERE) : NULL;
}

EXPORTED int posix_memalign(void **out, size_t alignment, size_t bytes)
{
	int err = find_next() ? next.posix_memalign(out, alignment, bytes) : ENOMEM;

	if (!err)
		note(*out, bytes, HERE);
	return err;
}

EXPORTED void *valloc(size_t bytes)
{
	return find_next() ? note(next.valloc(bytes), bytes, HERE) : NULL;
}

EXPORTED void *pvalloc(size_t bytes)
{
	return find_next() ? note(next.pvalloc(bytes), bytes, HERE) : NULL;
}

/* ---- for the agent ---- */

static void tell_event(const struct heap_event *event, struct race_heap_event *out)
{
	const struct heap_stack *stack = heap_stacks_get(stacks, event->stack);
	/* Other processes can write what is returned: the count is not read back from there. */
	uint32_t count = stack ? stack->count : 0;

	out->time_ns = event->time_ns;
	out->tid = (int32_t)event->tid;
	out->frame_count = count;
	for (uint32_t i = 0; i < count; i++)
		out->frames[i] = stack->frames[i];
}

EXPORTED int trapline_heap_find(uint64_t address, struct race_heap *out)
{
	struct heap_block block;

	if (!blocks || !stacks || heap_blocks_find(blocks, address, &block))
		return -ENOENT;
	out->start = block.start;
	out->size = block.size;
	tell_event(&block.allocated, &out->allocated);
	tell_event(&block.freed, &out->freed);
	return 0;
}

EXPORTED void trapline_heap_count_into(uint64_t *to_blocks, uint64_t *to_stacks)
{
	counter_add(to_blocks, atomic_swap(&early_lost[0], (uint64_t)0));
	counter_add(to_stacks, atomic_swap(&early_lost[1], (uint64_t)0));
	atomic_set(&lost_blocks, to_blocks);
	atomic_set(&lost_stacks, to_stacks);
}

static void on_fork(void)
{
	own_tid = 0;
}

__attribute__((constructor)) static void heap_start(void)
{
	pthread_atfork(NULL, NULL, on_fork);
	find_next();
}
