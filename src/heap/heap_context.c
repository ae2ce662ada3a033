/* SPDX-License-Identifier: MIT */
/*
 * heap_context.c - see heap_context.h. This is what each allocation pays: some nanoseconds.
 *
 * In a program that allocates often, to look up each context is more than its part of the budget.
 * So there are naps between rows of calls: as long as they last, an allocation counts down, and no
 * more. Where a nap ends is drawn.
 *
 * A context is the return address, the depth of the stack, and the next six return addresses:
 * wrappers of malloc() do not hide their callers. Where those are is learnt once for each return
 * address and depth, and read from there later. A word that is not a return address there, since
 * another path led to the same depth, makes another context: that costs a sample, and is not an
 * error.
 *
 * The first block of each context is due, and one of the next two, of the next four, of the next
 * eight, and so on. Chance decides which of these. So the nth block of a context is sampled with a
 * chance of 1 / n to 2 / n.
 *
 * Rules: 1. A row of return addresses is claimed by its key, filled, and then ready; it never
 * changes. 2. The counts are plain: two threads at once may count one, and a count that is lost is
 * a sample more. 3. The tables are small at first, since each page of them costs a fault. When half
 * of one is used, a larger one replaces it, and takes over what is asked for again.
 */
#include "heap/heap_context.h"

#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/table_size.h"
#include "heap/heap.h"
#include "heap/heap_budget.h"
#include "heap/heap_draw.h"
#include "heap/heap_family.h"
#include "heap/heap_frames.h"
#include "heap/heap_growth.h"
#include "heap/heap_watch.h"

#define WORDS 6u
#define LOOK_AT_FIRST 64u
#define LOOK_EVERY 4096u
#define ROW_CALLS 64u /* whose contexts are looked up, one after the other */
#define FIRST_MOST 0xffffffu
#define WAITS_LOG2 10u
#define DUE_MOST (1u << 30)
#define LEVELS 3u
#define WAYS 4u
#define OFFSET_MAX (UINT16_MAX * OFFSET_UNIT)
#define OFFSET_UNIT 8u
#define HERE_OFFSET 1u /* of the return address itself: a word that states nothing new */

struct row {
	uint64_t key;		 /* 0: free */
	uint16_t ready;		 /* the locations are known */
	uint16_t offsets[WORDS]; /* in words from the frame on */
};

struct count {
	uint32_t tag;
	int32_t left; /* allocations until one is due, with it */
};

/* For a context, and asked for when a block is due. */
struct past {
	uint32_t next; /* which block of its context is due; the first one is 1 */
	uint32_t samples : 24;
	uint32_t waits : 8; /* times that the budget refused the first one */
};

/* Sizes are powers of two. */
struct level {
	struct row (*rows)[WAYS];
	struct count *counts;
	struct past *pasts;
	uint32_t row_mask;
	uint32_t count_mask;
	uint32_t used_rows;
	uint32_t used_counts;
};

static const uint32_t sets_of[LEVELS] = { TABLE_SIZE(128u, 2u), TABLE_SIZE(1024u, 2u),
					  TABLE_SIZE(8192u, 2u) };
static const uint32_t counts_of[LEVELS] = { TABLE_SIZE(1024u, 2u), TABLE_SIZE(8192u, 2u),
					    TABLE_SIZE(65536u, 2u) };
_Static_assert(HEAP_FAMILY_COUNTS + (TABLE_SIZE(1024u + 8192u + 65536u, 6u)) *
					    (sizeof(struct count) + sizeof(struct past)) <=
		       HEAP_FAMILY_BYTES,
	       "they have room");
static struct level levels[LEVELS];
static struct level *level; /* the newest that is used */
static uint32_t first_blocks;

static size_t bytes_of_counts(uint32_t i)
{
	return counts_of[i] * (sizeof(struct count) + sizeof(struct past));
}

/* Shared with children: what one of them has sampled is less worth in the next. */
static void set_counts(void *family)
{
	char *at = (char *)family + HEAP_FAMILY_COUNTS;

	for (uint32_t i = 0; i < LEVELS; i++) {
		struct count *counts = (struct count *)at;

		levels[i].pasts = (struct past *)(counts + counts_of[i]);
		atomic_set(&levels[i].counts, counts);
		levels[i].used_counts = 0;
		at += bytes_of_counts(i);
	}
}

static void set_first(uint64_t first)
{
	first_blocks = first < FIRST_MOST ? (uint32_t)first : FIRST_MOST;
}

int heap_context_start(uint64_t first, void *family)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < LEVELS; i++)
		bytes += sets_of[i] * sizeof(struct row[WAYS]);
	char *at = memory_map(bytes);
	if (memory_failed(at))
		return memory_error(at);
	set_counts(family);
	for (uint32_t i = 0; i < LEVELS; i++) {
		struct level *l = &levels[i];

		l->rows = (struct row(*)[WAYS])at;
		at += sets_of[i] * sizeof(struct row[WAYS]);
		l->row_mask = sets_of[i] - 1;
		l->count_mask = counts_of[i] - 1;
	}
	level = &levels[0];
	set_first(first);
	return 0;
}

void heap_context_forget(uint64_t first, void *family)
{
	set_counts(family);
	set_first(first);
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

/* ---- where the return addresses are ---- */

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
	heap_budget_spend(start, HEAP_FOR_CONTEXTS);
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

/* NULL: not known; *is_refused: and not to be learnt now. */
static const struct row *row_of(struct level *l, uint64_t key, const uint64_t *frame,
				bool *is_refused)
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
	*is_refused = !first_blocks && !heap_budget_affords(HEAP_FOR_CONTEXTS);
	if (*is_refused)
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

static uint32_t index_of(const struct level *l, uint64_t hash)
{
	return (uint32_t)(hash >> 40) & l->count_mask;
}

/* As it was in the level before, if it was there. */
static void inherit_count(struct level *l, uint64_t hash, struct count *count, struct past *past)
{
	uint32_t tag = count->tag;

	if (l == levels)
		return;
	for (uint32_t way = 0; way < 2; way++) {
		uint32_t i = index_of(l - 1, hash) ^ way;

		if (l[-1].counts[i].tag != tag)
			continue;
		*count = l[-1].counts[i];
		*past = l[-1].pasts[i];
		return;
	}
}

/*
 * For a context that is not where its hash states. It is beside, or it is new here, and its next
 * block is due. What it replaces counts as used, so that contexts that meet in one row get a larger
 * table.
 */
static __attribute__((noinline)) uint32_t other_place(struct level *l, uint32_t index,
						      uint64_t hash, uint32_t tag)
{
	struct count fresh = { .tag = tag, .left = 1 };
	struct past past = { .next = 1 };

	if (l->counts[index ^ 1].tag == tag)
		return index ^ 1;
	if (l->counts[index].tag && !l->counts[index ^ 1].tag)
		index ^= 1;
	inherit_count(l, hash, &fresh, &past);
	counter_add(&l->used_counts, 1u);
	grow(l);
	l->pasts[index] = past;
	l->counts[index] = fresh;
	return index;
}

/* In the next power of two. Returns how many blocks later that is. */
static int32_t draw_next(struct past *past)
{
	uint32_t now = past->next | 1;
	uint32_t power = 2u << (31 - __builtin_clz(now));

	if (now >= DUE_MOST)
		return INT32_MAX;
	past->next = power + (heap_random() & (power - 1));
	return (int32_t)(past->next - now);
}

/* The first of a context that has to wait is drawn too, so that it is not always the same one. */
static int32_t draw_wait(struct past *past)
{
	if (past->waits < WAITS_LOG2)
		past->waits++;
	return 1 + (int32_t)(heap_random() & ((1u << past->waits) - 1));
}

static __attribute__((noinline)) uint32_t take_due(struct count *count, struct past *past)
{
	if (past->samples >= first_blocks && !heap_budget_affords(HEAP_FOR_CONTEXTS)) {
		count->left = past->samples ? draw_next(past) : draw_wait(past);
		return 0;
	}
	uint32_t nth = past->samples + 1;
	past->samples = nth < FIRST_MOST ? nth : FIRST_MOST;
	if (nth < first_blocks) {
		past->next++;
		count->left = 1;
	} else {
		count->left = draw_next(past);
	}
	return nth;
}

static inline uint32_t wants(struct level *l, uint64_t key, const struct row *row,
			     const uint64_t *frame)
{
	uint64_t hash = hash_of(key, row, frame);
	uint32_t index = index_of(l, hash);
	uint32_t tag = (uint32_t)hash | 1;

	if (__builtin_expect(l->counts[index].tag != tag, 0))
		index = other_place(l, index, hash, tag);
	if (__builtin_expect(--l->counts[index].left > 0, 1))
		return 0;
	return take_due(&l->counts[index], &l->pasts[index]);
}

static __attribute__((noinline)) uint32_t wants_otherwise(struct level *l, uint64_t key,
							  const uint64_t *frame)
{
	bool is_refused = false;
	const struct row *row = row_of(l, key, frame, &is_refused);

	return is_refused ? 0 : wants(l, key, row, frame);
}

/* Its cost is measured now and then: most of it is what lies in no cache. */
static uint32_t ask(const uint64_t *frame)
{
	/* Threads have their control block at the same distance from the top of their stack. */
	uint64_t depth = (uintptr_t)__builtin_thread_pointer() - (uintptr_t)frame;
	uint64_t key = (frame[1] ^ depth * HASH_MIX) | 1;
	struct level *l = level_now();
	const struct row *row = l->rows[set_of(l, key)];

	if (counter_get(&row->key) != key || !__atomic_load_n(&row->ready, __ATOMIC_ACQUIRE))
		return wants_otherwise(l, key, frame);
	return wants(l, key, row, frame);
}

static uint32_t ask_timed(const uint64_t *frame)
{
	uint64_t begun = clock_now_ns();
	uint32_t nth = ask(frame);

	if (!nth)
		heap_budget_time_ask(clock_now_ns() - begun);
	return nth;
}

/* ---- which contexts are looked up ---- */

static void pay(struct heap_thread *self)
{
	heap_budget_add_calls(self->unpaid, self->asked);
	if (heap_is_growth)
		heap_growth_pay(self->unpaid);
	self->unpaid = 0;
	self->asked = 0;
	self->most = 2 * self->most < LOOK_EVERY ? 2 * self->most : LOOK_EVERY;
	heap_draw_pace();
	heap_watch_look();
	self->to_drawn = 0; /* by the N of now */
}

/* Counts those since the last look, with this one. true: this one is drawn. */
static bool pass(struct heap_thread *self)
{
	uint32_t steps = self->steps;
	bool is_drawn = steps && self->to_drawn == steps;

	self->to_drawn -= self->to_drawn ? steps : 0;
	self->nap -= self->nap < steps ? self->nap : steps;
	self->unpaid += steps ? steps : 1;
	if (self->unpaid >= self->most)
		pay(self);
	if (!self->to_drawn)
		self->to_drawn = heap_draw_steps();
	return is_drawn;
}

/* In a row of calls their contexts are looked up; then there may be a nap. */
static uint32_t ask_in_row(struct heap_thread *self, const uint64_t *frame)
{
	if (heap_is_growth)
		self->nap = self->most;
	if (self->nap)
		return 0;
	if (!self->awake)
		self->awake = ROW_CALLS;
	self->asked++;
	if (--self->awake)
		return ask(frame);
	self->nap = heap_draw_nap(ROW_CALLS);
	return ask_timed(frame);
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* A nap of the run before would spare the first blocks of this run. */
static void begin_run(struct heap_thread *self)
{
	self->run = atomic_get(&heap_run);
	self->steps = self->most = self->unpaid = self->asked = 0;
	self->to_drawn = self->awake = self->nap = 0;
}

uint32_t heap_look(const uint64_t *frame)
{
	struct heap_thread *self = &heap_self;

	if (self->busy)
		return 0;
	if (!heap_range.bytes || heap_is_over) {
		self->until = LOOK_AT_FIRST - 1;
		self->steps = 0;
		return 0;
	}
	if (self->run != atomic_get(&heap_run))
		begin_run(self);
	if (!self->most)
		self->most = LOOK_AT_FIRST;
	bool is_drawn = pass(self);
	uint32_t nth = ask_in_row(self, frame);
	self->steps = self->nap ? least(least(self->nap, self->to_drawn), self->most) : 1;
	self->until = self->steps - 1;
	/* What is refused would be missing in the sums of growth: N alone keeps the budget. */
	return is_drawn && (heap_is_growth || heap_budget_affords(HEAP_FOR_ALL)) ? HEAP_DRAWN : nth;
}

void heap_context_end(void)
{
	if (heap_self.steps)
		heap_budget_add_calls(heap_self.unpaid + heap_self.steps - heap_self.until - 1,
				      heap_self.asked);
}
