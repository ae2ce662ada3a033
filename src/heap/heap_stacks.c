/* SPDX-License-Identifier: MIT */
/*
 * heap_stacks.c - see heap_stacks.h.
 *
 * Rules: 1. A stack is filled, and then gets its location in the table by a compare-and-exchange;
 * it never changes after that. 2. A row of the cache has a version, odd while the row is written; a
 * reader compares it before and after. No thread waits: a row in use is skipped.
 */
#include "heap/heap_stacks.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/atomic.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/table_size.h"
#include "heap/heap_frames.h"

#define STACKS_LOG2 TABLE_SIZE(15u, 1u)
#define STACKS (1u << STACKS_LOG2)
#define PROBES 32u
#define CACHE_ROWS TABLE_SIZE(8192u, 2u)

/* Where the return addresses of a stack are, from the frame on. */
struct cached {
	uint64_t frame;
	uint64_t frame_pointer; /* of a caller that has one, so that its frame may vary; else 0 */
	uint64_t caller;
	uint32_t number;
	uint32_t count;
	uint32_t offsets[RACE_HEAP_FRAMES]; /* bytes from the frame */
};

struct cache_row {
	uint32_t version; /* odd: being written */
	uint32_t reserved;
	struct cached cached;
};

struct heap_stacks {
	uint32_t numbers[STACKS]; /* by hash; 0: free */
	uint32_t used;
	bool is_cached;
	/* One after the other, so that few pages are touched. */
	struct heap_stack rows[STACKS];
	struct cache_row cache[CACHE_ROWS];
};

struct heap_stacks *heap_stacks_new(bool is_cached)
{
	struct heap_stacks *stacks = memory_map(sizeof(*stacks));

	if (memory_failed(stacks))
		return NULL;
	stacks->is_cached = is_cached;
	return stacks;
}

const struct heap_stack *heap_stacks_get(const struct heap_stacks *stacks, uint32_t number)
{
	if (!number || number > STACKS || !atomic_get(&stacks->rows[number - 1].ready))
		return NULL;
	return &stacks->rows[number - 1];
}

/* ---- stacks, each once ---- */

static bool is_same(const struct heap_stack *s, uint64_t hash, const struct heap_walk *walk)
{
	return s->hash == hash && s->count == walk->count &&
	       !memcmp(s->frames, walk->frames, walk->count * sizeof(walk->frames[0]));
}

/* A row that is not in the table yet. 0: all are used. */
static uint32_t fill_next(struct heap_stacks *stacks, uint64_t hash, const struct heap_walk *walk)
{
	if (counter_get(&stacks->used) >= STACKS)
		return 0;
	uint32_t at = counter_add(&stacks->used, 1u);
	if (at >= STACKS)
		return 0;
	struct heap_stack *s = &stacks->rows[at];
	memcpy(s->frames, walk->frames, walk->count * sizeof(walk->frames[0]));
	s->count = walk->count;
	s->hash = hash;
	atomic_set(&s->ready, 1u);
	return at + 1;
}

static uint32_t heap_stacks_add(struct heap_stacks *stacks, const struct heap_walk *walk)
{
	uint64_t hash = 0;
	uint32_t made = 0;

	for (uint32_t i = 0; i < walk->count; i++)
		hash = hash_step(hash, walk->frames[i]);
	for (uint32_t n = 0; n < PROBES; n++) {
		uint32_t *number = &stacks->numbers[(uint32_t)((hash >> 8) + n) % STACKS];
		uint32_t held = atomic_get(number);

		if (!held && !made)
			made = fill_next(stacks, hash, walk);
		if (!held && (!made || atomic_cas(number, &held, made)))
			return made;
		/* Filled before, or by another thread in between. */
		if (is_same(&stacks->rows[held - 1], hash, walk))
			return held;
	}
	return 0;
}

/* ---- the cache ---- */

static struct cache_row *row_for(struct heap_stacks *stacks, const uint64_t *frame)
{
	uint64_t hash = hash_step((uintptr_t)frame, frame[1]);

	return &stacks->cache[hash % CACHE_ROWS];
}

static uint32_t find(const struct heap_stacks *stacks, const struct cache_row *row,
		     const uint64_t *frame)
{
	uint32_t version = atomic_get(&row->version);
	struct cached c = row->cached;

	/* What is used as an address must be whole. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (version & 1 || atomic_get(&row->version) != version || c.frame != (uintptr_t)frame ||
	    c.caller != frame[1] || (c.frame_pointer && c.frame_pointer != frame[0]))
		return 0;
	const struct heap_stack *s = heap_stacks_get(stacks, c.number);
	if (!s)
		return 0;
	/*
	 * From the innermost on: as long as they are the same, the next one's address is its own.
	 */
	for (uint32_t i = 1; i < c.count; i++)
		if (*(const uint64_t *)((uintptr_t)frame + c.offsets[i]) != s->frames[i])
			return 0;
	return c.number;
}

static void remember(struct cache_row *row, const uint64_t *frame, const struct heap_walk *walk,
		     uint32_t number)
{
	uint32_t version = atomic_get(&row->version);

	if (!number || !walk->is_regular || version & 1 ||
	    !atomic_cas(&row->version, &version, version + 1))
		return;
	/* Its register is one like others unless its own return address is above it. */
	bool has_pointer = walk->count > 1 &&
			   (uintptr_t)frame + walk->offsets[1] == frame[0] + sizeof(uint64_t);
	row->cached = (struct cached){ (uintptr_t)frame, has_pointer ? frame[0] : 0,
				       frame[1],	 number,
				       walk->count,	 { 0 } };
	memcpy(row->cached.offsets, walk->offsets, sizeof(walk->offsets));
	atomic_set(&row->version, version + 2);
}

uint32_t heap_stacks_here(struct heap_stacks *stacks, const uint64_t *frame)
{
	struct cache_row *row = stacks->is_cached ? row_for(stacks, frame) : NULL;
	uint32_t number = row ? find(stacks, row, frame) : 0;
	struct heap_walk walk;

	if (number)
		return number;
	heap_walk(&walk, frame);
	number = heap_stacks_add(stacks, &walk);
	if (row)
		remember(row, frame, &walk, number);
	return number;
}
