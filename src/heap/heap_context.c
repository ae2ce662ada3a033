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
 * counts are plain: two threads at once may count one, and a count that is lost is a sample more. 3. The
 * tables are small at first, since each page of them costs a fault. When half of one is used, a larger
 * one takes its place, and takes over what is asked for again.
 */
#include "heap/heap_context.h"

#include <string.h>

#include "base/atomic.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/table_size.h"
#include "heap/heap.h"
#include "heap/heap_budget.h"
#include "heap/heap_frames.h"
#include "heap/heap_watch.h"

#define WORDS 6u
#define LOOK_EVERY 4096u
#define LEVELS 3u
#define WAYS 4u
#define OFFSET_MAX (UINT16_MAX * OFFSET_UNIT)
#define OFFSET_UNIT 8u
#define HERE_OFFSET 1u /* of the return address itself: a word that says nothing new */

struct row {
	uint64_t key;		 /* 0: free */
	uint16_t ready;		 /* the places are known */
	uint16_t offsets[WORDS]; /* in words from the frame on */
};

struct count {
	uint32_t tag;
	uint32_t n;
};

/* Sizes are powers of two. */
struct level {
	struct row (*rows)[WAYS];
	struct count *counts;
	uint32_t row_mask;
	uint32_t count_mask;
	uint32_t used_rows;
	uint32_t used_counts;
};

static const uint32_t sets_of[LEVELS] = { TABLE_SIZE(128u, 2u), TABLE_SIZE(1024u, 2u),
					  TABLE_SIZE(8192u, 2u) };
static const uint32_t counts_of[LEVELS] = { TABLE_SIZE(1024u, 2u), TABLE_SIZE(8192u, 2u),
					    TABLE_SIZE(65536u, 2u) };
static struct level levels[LEVELS];
static struct level *level; /* the newest that is used */
static uint32_t first_blocks;

int heap_context_start(uint64_t first)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < LEVELS; i++)
		bytes +=
			sets_of[i] * sizeof(struct row[WAYS]) + counts_of[i] * sizeof(struct count);
	char *at = memory_map(bytes);
	if (memory_failed(at))
		return memory_error(at);
	for (uint32_t i = 0; i < LEVELS; i++) {
		struct level *l = &levels[i];

		l->rows = (struct row(*)[WAYS])at;
		at += sets_of[i] * sizeof(struct row[WAYS]);
		l->counts = (struct count *)at;
		at += counts_of[i] * sizeof(struct count);
		l->row_mask = sets_of[i] - 1;
		l->count_mask = counts_of[i] - 1;
	}
	level = &levels[0];
	first_blocks = (uint32_t)first;
	return 0;
}

void heap_context_forget(uint64_t first)
{
	for (uint32_t i = 0; i < LEVELS && &levels[i] <= level; i++)
		memset(levels[i].counts, 0, counts_of[i] * sizeof(struct count));
	first_blocks = (uint32_t)first;
}

static struct level *level_now(void)
{
	return __atomic_load_n(&level, __ATOMIC_RELAXED);
}

/* The next one, if this is the newest and half of it is used. */
static void grow(struct level *l)
{
	struct level *held = l;

	if (l < &levels[LEVELS - 1] && (counter_get(&l->used_rows) > 2 * (l->row_mask + 1) ||
					counter_get(&l->used_counts) > (l->count_mask + 1) / 2))
		atomic_cas(&level, &held, l + 1);
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
			row->offsets[i] = (uint16_t)(walk.offsets[i + 1] / OFFSET_UNIT);
	__atomic_store_n(&row->ready, 1, __ATOMIC_RELEASE);
	heap_self.busy--;
	heap_budget_spend(start);
}

static uint32_t set_of(const struct level *l, uint64_t key)
{
	return (uint32_t)(key * HASH_MIX >> 40) & l->row_mask;
}

static const struct row *find_row(const struct level *l, uint64_t key, bool *is_being_filled)
{
	struct row *set = l->rows[set_of(l, key)];

	for (uint32_t i = 0; i < WAYS; i++) {
		if (counter_get(&set[i].key) != key)
			continue;
		*is_being_filled = !__atomic_load_n(&set[i].ready, __ATOMIC_ACQUIRE);
		return *is_being_filled ? NULL : &set[i];
	}
	return NULL;
}

/* NULL: the set is full. */
static struct row *claim_row(struct level *l, uint64_t key)
{
	struct row *set = l->rows[set_of(l, key)];

	for (uint32_t i = 0; i < WAYS; i++) {
		uint64_t held = 0;

		if (!atomic_cas(&set[i].key, &held, key))
			continue;
		counter_add(&l->used_rows, 1u);
		grow(l);
		return &set[i];
	}
	return NULL;
}

/* NULL: not known, and not to be learnt now. */
static const struct row *row_of(struct level *l, uint64_t key, const uint64_t *frame)
{
	bool is_being_filled = false;
	const struct row *known = find_row(l, key, &is_being_filled);
	struct row *row;

	if (known || is_being_filled)
		return known;
	if (l > levels && (known = find_row(l - 1, key, &is_being_filled))) {
		if ((row = claim_row(l, key))) {
			memcpy(row->offsets, known->offsets, sizeof(row->offsets));
			__atomic_store_n(&row->ready, 1, __ATOMIC_RELEASE);
		}
		return known;
	}
	if (!heap_region->settings.first && !heap_budget_affords(&heap_self))
		return NULL;
	if ((row = claim_row(l, key)))
		learn(row, frame);
	return row;
}

static uint64_t hash_of(uint64_t key, const struct row *row, const uint64_t *frame)
{
	static const uint64_t odd[WORDS] = { HASH_MIX,
					     0xbf58476d1ce4e5b9u,
					     0x94d049bb133111ebu,
					     0xd6e8feb86659fd93u,
					     0xa0761d6478bd642fu,
					     0xe7037ed1a0b428dbu };
	uint64_t sum = key;

	/* Each by its own factor: the products do not wait for each other. */
	for (uint32_t i = 0; row && i < WORDS; i++)
		sum += frame[row->offsets[i]] * odd[i];
	return (sum ^ sum >> 29) * HASH_MIX;
}

/* Of a context that is counted for the first time, or often enough. */
static __attribute__((noinline)) bool affords(struct count *count)
{
	if (count->n <= first_blocks || heap_budget_affords(&heap_self))
		return true;
	count->n--; /* the next one of it is as good */
	return false;
}

static struct count *count_in(const struct level *l, uint64_t hash)
{
	return &l->counts[(uint32_t)(hash >> 40) & l->count_mask];
}

/* A context that has no count in this level, or lost it to another. */
static __attribute__((noinline)) void begin_count(struct level *l, struct count *count,
						  uint64_t hash, uint32_t tag)
{
	uint32_t n = 0;

	if (l > levels && count_in(l - 1, hash)->tag == tag)
		n = count_in(l - 1, hash)->n;
	if (!count->tag) {
		counter_add(&l->used_counts, 1u);
		grow(l);
	}
	*count = (struct count){ .tag = tag, .n = n };
}

static inline uint32_t wants(struct level *l, uint64_t key, const struct row *row,
			     const uint64_t *frame)
{
	uint64_t hash = hash_of(key, row, frame);
	struct count *count = count_in(l, hash);
	uint32_t tag = (uint32_t)hash | 1;

	if (__builtin_expect(count->tag != tag, 0))
		begin_count(l, count, hash, tag);
	uint32_t n = ++count->n;
	if (__builtin_expect(n > first_blocks && (n & (n - 1)), 1))
		return 0;
	return !affords(count) ? 0 : n <= first_blocks ? n : (uint32_t)__builtin_ctz(n) + 1;
}

static __attribute__((noinline)) uint32_t wants_otherwise(struct level *l, uint64_t key,
							  const uint64_t *frame)
{
	const struct row *row = row_of(l, key, frame);

	return row || !heap_self.skip ? wants(l, key, row, frame) : 0;
}

static __attribute__((noinline, cold)) void look(struct heap_thread *self)
{
	bool is_first = !self->looks;

	self->look = LOOK_EVERY;
	if (!heap_range.bytes || heap_is_over || self->busy)
		return;
	self->looks = 1;
	if (is_first)
		return;
	heap_budget_add_calls(LOOK_EVERY);
	heap_watch_look();
}

void heap_context_end(void)
{
	if (heap_self.looks)
		heap_budget_add_calls(LOOK_EVERY - heap_self.look);
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
	uint64_t key = (frame[1] ^ depth * HASH_MIX) | 1;
	struct level *l = level_now();
	const struct row *row = l->rows[set_of(l, key)];

	if (counter_get(&row->key) != key || !__atomic_load_n(&row->ready, __ATOMIC_ACQUIRE))
		return wants_otherwise(l, key, frame);
	return wants(l, key, row, frame);
}
