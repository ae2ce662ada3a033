/* SPDX-License-Identifier: MIT */
/*
 * heap_stacks.c - see heap_stacks.h.
 *
 * Rules: 1. A stack is claimed by a compare-and-exchange of its hash, filled, and then
 * ready; it never changes after that. 2. A row of the cache has a version, odd while the
 * row is written; a reader compares it before and after. No thread waits: a row in use is
 * skipped.
 */
#include "heap/heap_stacks.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unwind.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/table_size.h"

#define STACKS_LOG2 TABLE_SIZE(15u, 1u)
#define STACKS (1u << STACKS_LOG2)
#define PROBES 32u
#define CACHE_ROWS TABLE_SIZE(8192u, 2u)

/* Where the return addresses of a stack stand, from the frame on. */
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
	struct heap_stack rows[STACKS];
	struct cache_row cache[CACHE_ROWS];
};

struct heap_stacks *heap_stacks_new(void)
{
	struct heap_stacks *stacks = memory_map(sizeof(*stacks));

	return memory_failed(stacks) ? NULL : stacks;
}

const struct heap_stack *heap_stacks_get(const struct heap_stacks *stacks, uint32_t number)
{
	if (!number || number > STACKS || !atomic_get(&stacks->rows[number - 1].ready))
		return NULL;
	return &stacks->rows[number - 1];
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

/* ---- unwinding ---- */

struct walk {
	const uint64_t *frame;
	uint64_t frames[RACE_HEAP_FRAMES];
	uint32_t offsets[RACE_HEAP_FRAMES];
	uint32_t count;
	bool is_regular; /* each return address stands where it is expected */
};

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *arg)
{
	struct walk *walk = arg;
	uint64_t ip = _Unwind_GetIP(context);
	uint64_t at = _Unwind_GetCFA(context) - sizeof(uint64_t);
	uint64_t offset = at - (uintptr_t)walk->frame;

	/* Ours come first. */
	if (!walk->count && at != (uintptr_t)&walk->frame[1])
		return _URC_NO_REASON;
	if (walk->count == RACE_HEAP_FRAMES || !ip)
		return _URC_END_OF_STACK;
	if (offset > UINT32_MAX || *(const uint64_t *)at != ip)
		walk->is_regular = false;
	walk->offsets[walk->count] = (uint32_t)offset;
	walk->frames[walk->count++] = ip;
	return walk->is_regular ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* ---- stacks, each once ---- */

static bool is_same(const struct heap_stack *s, const struct walk *walk)
{
	return s->count == walk->count &&
	       !memcmp(s->frames, walk->frames, walk->count * sizeof(walk->frames[0]));
}

static uint32_t heap_stacks_add(struct heap_stacks *stacks, const struct walk *walk)
{
	uint64_t hash = 0;

	for (uint32_t i = 0; i < walk->count; i++)
		hash = mix(hash, walk->frames[i]);
	hash |= 1;
	for (uint32_t n = 0; n < PROBES; n++) {
		uint32_t at = (uint32_t)((hash >> 8) + n) % STACKS;
		struct heap_stack *s = &stacks->rows[at];
		uint64_t held = 0;

		if (atomic_cas(&s->hash, &held, hash)) {
			memcpy(s->frames, walk->frames, sizeof(s->frames));
			s->count = walk->count;
			atomic_set(&s->ready, 1u);
			return at + 1;
		}
		if (held == hash && atomic_get(&s->ready) && is_same(s, walk))
			return at + 1;
	}
	return 0;
}

/* ---- the cache ---- */

static struct cache_row *row_for(struct heap_stacks *stacks, const uint64_t *frame)
{
	uint64_t hash = mix((uintptr_t)frame, frame[1]);

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
	/* From the innermost on: as long as they are the same, the next one's place is its own. */
	for (uint32_t i = 1; i < c.count; i++)
		if (*(const uint64_t *)((uintptr_t)frame + c.offsets[i]) != s->frames[i])
			return 0;
	return c.number;
}

static void remember(struct cache_row *row, const uint64_t *frame, const struct walk *walk,
		     uint32_t number)
{
	uint32_t version = atomic_get(&row->version);

	if (!number || !walk->is_regular || version & 1 ||
	    !atomic_cas(&row->version, &version, version + 1))
		return;
	/* Its register is one like others unless its own return address stands above it. */
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
	struct cache_row *row = row_for(stacks, frame);
	uint32_t number = find(stacks, row, frame);
	struct walk walk = { .frame = frame, .is_regular = true };

	if (number)
		return number;
	_Unwind_Backtrace(step, &walk);
	if (!walk.count) {
		walk.frames[0] = frame[1];
		walk.count = 1;
		walk.is_regular = false;
	}
	number = heap_stacks_add(stacks, &walk);
	remember(row, frame, &walk, number);
	return number;
}
