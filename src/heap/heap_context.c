/* SPDX-License-Identifier: MIT */
/*
 * heap_context.c - see heap_context.h. This is what each allocation pays: some nanoseconds.
 *
 * A context is the return address, the depth of the stack, and the next six return addresses: wrappers
 * of malloc() do not hide their callers. Where those stand is learnt once for each return address
 * and depth, and read from there later. A word that is no return address there, since
 * another path led to the same depth, makes another context: that costs a sample, and is no error.
 *
 * Rules: 1. A row of places is claimed by its key, filled, and then ready; it never changes. 2. The
 * counts are plain: two threads at once may count one, and a count that is lost is a sample more.
 */
#include "heap/heap_context.h"

#include <string.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/table_size.h"
#include "heap/heap.h"
#include "heap/heap_budget.h"
#include "heap/heap_frames.h"
#include "heap/heap_watch.h"

#define WORDS 6u
#define LOOK_EVERY 4096u
#define ROWS_LOG2 TABLE_SIZE(13u, 1u)
#define WAYS 4u
#define COUNTS_LOG2 TABLE_SIZE(16u, 1u)
#define OFFSET_MAX 65536u
#define HERE_OFFSET 8u /* of the return address itself: a word that says nothing new */
#define MIX 0x9e3779b97f4a7c15u

struct row {
	uint64_t key;	/* 0: free */
	uint32_t ready; /* the places are known */
	uint32_t offsets[WORDS];
};

struct count {
	uint32_t tag;
	uint32_t n;
};

struct contexts {
	struct row rows[1u << ROWS_LOG2][WAYS];
	struct count counts[1u << COUNTS_LOG2];
};

static struct contexts *contexts;
static uint32_t first_blocks;

int heap_context_start(uint64_t first)
{
	struct contexts *map = memory_map_large(sizeof(*map));

	if (memory_failed(map))
		return memory_error(map);
	contexts = map;
	first_blocks = (uint32_t)first;
	return 0;
}

void heap_context_forget(uint64_t first)
{
	memset(contexts->counts, 0, sizeof(contexts->counts));
	first_blocks = (uint32_t)first;
}

/* ---- where the return addresses stand ---- */

static __attribute__((noinline)) void learn(struct row *row, const uint64_t *frame)
{
	struct heap_walk walk;
	uint64_t start = heap_budget_begin();

	heap_self.busy++;
	heap_walk(&walk, frame);
	for (uint32_t i = 0; i < WORDS; i++)
		row->offsets[i] = HERE_OFFSET;
	for (uint32_t i = 0; i < WORDS && i + 1 < walk.count; i++)
		if (walk.offsets[i + 1] <= OFFSET_MAX)
			row->offsets[i] = walk.offsets[i + 1];
	atomic_set(&row->ready, 1u);
	heap_self.busy--;
	heap_budget_spend(start);
}

static uint64_t set_of(uint64_t key)
{
	return key * MIX >> (64 - ROWS_LOG2);
}

/* NULL: not known, and not to be learnt now. */
static const struct row *row_of(uint64_t key, const uint64_t *frame)
{
	struct row *set = contexts->rows[set_of(key)];

	for (uint32_t i = 0; i < WAYS; i++) {
		struct row *row = &set[i];
		uint64_t held = counter_get(&row->key);

		if (held == key)
			return counter_get(&row->ready) ? row : NULL;
		if (held)
			continue;
		if (!heap_budget_affords(&heap_self) || !atomic_cas(&row->key, &held, key))
			return NULL;
		learn(row, frame);
		return row;
	}
	return NULL;
}

static uint64_t hash_of(uint64_t key, const struct row *row, const uint64_t *frame)
{
	static const uint64_t odd[WORDS] = { 0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u,
					     0x94d049bb133111ebu, 0xd6e8feb86659fd93u,
					     0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu };
	uint64_t sum = key;

	/* Each by its own factor: the products do not wait for each other. */
	for (uint32_t i = 0; row && i < WORDS; i++)
		sum += *(const uint64_t *)((uintptr_t)frame + row->offsets[i]) * odd[i];
	return (sum ^ sum >> 29) * MIX;
}

/* Of a context that is counted for the first time, or often enough. */
static __attribute__((noinline)) bool affords(struct count *count)
{
	if (count->n <= first_blocks || heap_budget_affords(&heap_self))
		return true;
	count->n--; /* the next one of it is as good */
	return false;
}

static inline uint32_t wants(uint64_t key, const struct row *row, const uint64_t *frame)
{
	uint64_t hash = hash_of(key, row, frame);
	struct count *count = &contexts->counts[hash >> (64 - COUNTS_LOG2)];
	uint32_t tag = (uint32_t)hash | 1;

	if (count->tag != tag)
		*count = (struct count){ .tag = tag };
	uint32_t n = ++count->n;
	if (__builtin_expect(n > first_blocks && (n & (n - 1)), 1))
		return 0;
	return !affords(count) ? 0 : n <= first_blocks ? n : (uint32_t)__builtin_ctz(n) + 1;
}

static __attribute__((noinline)) uint32_t wants_otherwise(uint64_t key, const uint64_t *frame)
{
	const struct row *row = row_of(key, frame);

	return row || !heap_self.skip ? wants(key, row, frame) : 0;
}

static __attribute__((noinline, cold)) void look(struct heap_thread *self)
{
	self->look = LOOK_EVERY;
	if (heap_range.bytes && !heap_is_over && !self->busy)
		heap_watch_look();
}

uint32_t heap_wants(const uint64_t *frame)
{
	struct heap_thread *self = &heap_self;

	if (__builtin_expect(!self->look--, 0))
		look(self);
	if (self->skip) {
		self->skip--;
		if (!heap_region || !heap_region->settings.first)
			return 0;
	}
	if (!heap_range.bytes || heap_is_over || self->busy)
		return 0;
	/* Threads have their control block at the same distance from the top of their stack. */
	uint64_t depth = (uintptr_t)__builtin_thread_pointer() - (uintptr_t)frame;
	uint64_t key = (frame[1] ^ depth * MIX) | 1;
	const struct row *row = contexts->rows[set_of(key)];

	if (counter_get(&row->key) != key || !counter_get(&row->ready))
		return wants_otherwise(key, frame);
	return wants(key, row, frame);
}
