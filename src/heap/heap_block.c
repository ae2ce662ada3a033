/* SPDX-License-Identifier: MIT */
/*
 * heap_block.c - sampled blocks: take, give, inspect.
 *
 * A block ends where its slot ends, except for the bytes that its alignment needs. The page around
 * it has a pattern. What changed when the block is freed was written beside it, which no fault
 * shows. One of four samples of a context lies at the start of its slot instead, so that a read
 * before it faults.
 */
#include "heap/heap.h"

#include <pthread.h>
#include <string.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "heap/heap_budget.h"
#include "heap/heap_context.h"
#include "heap/heap_draw.h"
#include "heap/heap_growth.h"
#include "heap/heap_old.h"
#include "heap/heap_pages.h"
#include "heap/heap_pool.h"
#include "heap/heap_tell.h"
#include "heap/heap_watch.h"

#define PATTERN 0xd5u
#define NTH_AT_START 4u /* of each so many samples of a context one */
#define POP_TRIES 1024u /* as many slots as 64 threads prepare at once */

static uintptr_t least(uintptr_t a, uintptr_t b)
{
	return a < b ? a : b;
}

static uintptr_t most(uintptr_t a, uintptr_t b)
{
	return a > b ? a : b;
}

static AFTER_FORK bool is_child;
static AFTER_FORK bool has_own; /* it has sampled a block itself */

/* ---- the pattern: in the page at each end ---- */

struct gap {
	unsigned char *start;
	size_t bytes;
};

static struct gap gap_before(const struct heap_slot *s)
{
	uintptr_t from = most(s->base, s->start & ~(uintptr_t)(PAGE_BYTES - 1));

	if (from == s->start && s->start > s->base)
		from -= PAGE_BYTES;
	return (struct gap){ (unsigned char *)from, s->start - from };
}

static struct gap gap_after(const struct heap_slot *s)
{
	uintptr_t from = s->start + s->bytes;
	uintptr_t to = least(s->base + s->room, (from & ~(uintptr_t)(PAGE_BYTES - 1)) + PAGE_BYTES);

	return (struct gap){ (unsigned char *)from, to - from };
}

/* The block is old. */
static struct gap page_behind(const struct heap_slot *s)
{
	return (struct gap){ (unsigned char *)s->base + s->room, HEAP_OLD_BYTES };
}

static unsigned char pattern_page[PAGE_BYTES];

static void fill_gap(struct gap gap)
{
	memset(gap.start, PATTERN, gap.bytes);
}

/* The bytes from the first to the last that changed from all being `was`; false: none did. */
static bool find_change(struct gap gap, unsigned char was, uintptr_t *at, size_t *bytes)
{
	size_t first = 0;
	size_t last = gap.bytes;

	while (first < gap.bytes && gap.start[first] == was)
		first++;
	if (first == gap.bytes)
		return false;
	/* Another thread may put it right in between. */
	while (last > first + 1 && gap.start[last - 1] == was)
		last--;
	*at = (uintptr_t)gap.start + first;
	*bytes = last - first;
	return true;
}

static bool find_damage(struct gap gap, uintptr_t *at, size_t *bytes)
{
	return memcmp(gap.start, pattern_page, gap.bytes) && find_change(gap, PATTERN, at, bytes);
}

bool heap_is_damaged(const void *p, size_t bytes)
{
	return memcmp(p, pattern_page, bytes) != 0;
}

static void inspect(const struct heap_slot *slot)
{
	struct gap before = gap_before(slot);
	struct gap after = gap_after(slot);
	struct heap_error error = { .grade = HEAP_GRADE_B, .access = HEAP_WRITE, .slot = slot };

	error.kind = HEAP_UNDERFLOW;
	/* The register shows these, and to read them would set it off. */
	before.bytes -= heap_watched_before(slot);
	after.start += heap_watched_behind(slot);
	after.bytes -= heap_watched_behind(slot);
	if (!atomic_get(&slot->is_told_before) && find_damage(before, &error.address, &error.bytes))
		heap_tell(&error);
	error.kind = HEAP_OVERFLOW;
	if (!atomic_get(&slot->is_told_behind) &&
	    (find_damage(after, &error.address, &error.bytes) ||
	     (slot->is_old && find_change(page_behind(slot), 0, &error.address, &error.bytes))))
		heap_tell(&error);
}

/* ---- take ---- */

/*
 * What an allocator gives, and programs rely on: locks, vectors, bits that are kept in a pointer.
 * No type of more than 8 bytes fits into a block of 8.
 */
static size_t usual_alignment(size_t bytes)
{
	size_t most = heap_region->settings.align;

	return bytes <= 8 && most > 8 ? 8 : most;
}

/* The third of the first samples of a context; later they are drawn. */
static bool is_at_start(uint32_t nth)
{
	return nth <= NTH_AT_START ? nth == NTH_AT_START - 1 : heap_random() % NTH_AT_START == 0;
}

static void place(struct heap_slot *slot, const struct heap_request *r, uint32_t nth)
{
	size_t alignment = r->alignment ? r->alignment : usual_alignment(r->bytes);

	/* A block without bytes is where no access is. */
	slot->start = r->bytes && is_at_start(nth) ?
			      slot->base :
			      (slot->base + slot->room - r->bytes) & ~(alignment - 1);
	slot->bytes = r->bytes;
	slot->family = r->family;
	slot->is_drawn = (nth & HEAP_DRAWN) != 0;
	slot->is_told_before = slot->is_told_behind = 0;
	slot->is_old = 0;
	slot->owner = heap_pid;
	slot->freed = (struct heap_slot_event){ .time_ns = 0 };
}

/* One that no other thread changes: it may have been interrupted, so none is waited for. */
static struct heap_slot *pop_free(size_t bytes)
{
	bool is_full = true;
	struct heap_slot *slot;

	for (uint32_t n = 0; n < POP_TRIES && (slot = heap_pool_pop(bytes, &is_full)); n++) {
		if (heap_pages_take(slot))
			return slot;
		heap_pool_push(slot);
		is_full = true;
	}
	counter_add(&heap_region->counters[is_full ? HEAP_LOST_FULL : HEAP_LOST_LARGE], 1u);
	return NULL;
}

static void *take(const struct heap_request *r, uint32_t nth)
{
	struct heap_slot *slot = pop_free(r->bytes);

	if (!slot)
		return NULL;
	bool is_reused = atomic_get(&slot->state) != HEAP_SLOT_NEW;
	if (!heap_pool_open(slot)) {
		heap_pages_let_go(slot);
		heap_pool_push(slot);
		counter_add(&heap_region->counters[HEAP_LOST_MEMORY], 1u);
		return NULL;
	}
	atomic_set(&slot->state, (uint32_t)HEAP_SLOT_CHANGING);
	heap_watch_forget(slot);
	place(slot, r, nth);
	heap_tell_event(&slot->allocated, r->frame);
	fill_gap(gap_before(slot));
	fill_gap(gap_after(slot));
	if (r->is_zeroed)
		memset((void *)slot->start, 0, slot->bytes);
	atomic_set(&slot->state, (uint32_t)HEAP_SLOT_LIVE);
	heap_pages_let_go(slot);
	heap_watch_newest(slot);
	heap_old_note(slot);
	counter_add(&heap_region->counters[HEAP_SAMPLED], 1u);
	atomic_set_if_other(&has_own, true);
	if (slot->is_drawn)
		heap_draw_count();
	if (is_reused)
		counter_add(&heap_region->counters[HEAP_REUSED], 1u);
	return (void *)slot->start;
}

void *heap_take_nth(const struct heap_request *r, uint32_t nth)
{
	void *(*const take_one)(const struct heap_request *, uint32_t) =
		heap_is_growth ? heap_growth_take : take;
	uint64_t begun = heap_budget_begin();

	heap_self.busy++;
	if (heap_before_sample)
		heap_before_sample();
	/* In this order: the thread that stops inspects them the other way round. */
	atomic_add(&heap_live, 1u);
	void *p = atomic_get(&heap_is_over) ? NULL : take_one(r, nth);
	if (!p)
		atomic_add(&heap_live, (uint64_t)-1);
	heap_self.busy--;
	heap_budget_spend(begun, nth & HEAP_DRAWN ? HEAP_FOR_ALL : HEAP_FOR_CONTEXTS);
	return p;
}

void *heap_take(const struct heap_request *r)
{
	uint32_t nth = r->alignment > PAGE_BYTES ? 0 : heap_wants(r->frame);

	if (heap_is_growth)
		nth = heap_growth_wants(r, nth);

	return nth ? heap_take_nth(r, nth) : NULL;
}

/* ---- give ---- */

static void tell_wrong_free(void *p, const struct heap_slot *slot, enum heap_kind kind,
			    enum heap_memory memory, const uint64_t *frame)
{
	const struct heap_error error = { .kind = kind,
					  .memory = memory,
					  .address = (uintptr_t)p,
					  .slot = slot,
					  .frame = frame };

	heap_tell(&error);
}

/*
 * malloc() and free() are in any program, and it may have an operator of its own that calls them.
 */
static bool is_mismatched(const struct heap_slot *slot, enum heap_family family)
{
	return slot->family != family && slot->family != HEAP_OF_MALLOC && family != HEAP_OF_MALLOC;
}

static void give(struct heap_slot *slot, enum heap_family family, const uint64_t *frame)
{
	if (is_mismatched(slot, family))
		tell_wrong_free((void *)slot->start, slot, HEAP_INVALID_FREE,
				HEAP_MEMORY_MISMATCHED, frame);
	heap_tell_event(&slot->freed, frame);
	if (atomic_swap(&slot->is_protected, 0u))
		heap_pool_open_again(slot);
	inspect(slot);
	bool is_held = heap_pages_hold(slot);
	atomic_set(&slot->state, (uint32_t)HEAP_SLOT_FREED);
	/* The kernel may refuse: then uses of it are not found. */
	if (!heap_is_over && !heap_pool_close(slot))
		counter_add(&heap_region->counters[HEAP_LOST_MEMORY], 1u);
	if (is_held)
		heap_pages_let_go(slot);
	heap_pool_push(slot);
	atomic_add(&heap_live, (uint64_t)-1);
}

void heap_give(void *p, enum heap_family family, const uint64_t *frame)
{
	uint64_t begun = heap_budget_begin();
	struct heap_slot *slot = heap_pool_slot((uintptr_t)p);
	bool is_drawn = slot && slot->is_drawn;
	uint32_t state = HEAP_SLOT_LIVE;

	heap_self.busy++;
	if (slot && slot->start == (uintptr_t)p &&
	    atomic_cas(&slot->state, &state, (uint32_t)HEAP_SLOT_CHANGING)) {
		if (heap_is_growth)
			heap_growth_give(slot);
		else
			give(slot, family, frame);
	} else {
		bool is_double = slot && slot->start == (uintptr_t)p && state != HEAP_SLOT_NEW;
		tell_wrong_free(p, slot, is_double ? HEAP_DOUBLE_FREE : HEAP_INVALID_FREE,
				HEAP_MEMORY_BLOCK, frame);
	}
	heap_self.busy--;
	heap_budget_spend(begun, is_drawn ? HEAP_FOR_ALL : HEAP_FOR_CONTEXTS);
}

size_t heap_size(const void *p)
{
	const struct heap_slot *slot = heap_pool_slot((uintptr_t)p);

	return slot && slot->start == (uintptr_t)p && atomic_get(&slot->state) == HEAP_SLOT_LIVE ?
		       slot->bytes :
		       0;
}

/* A program that aborts ends twice: by abort(), and by the signal. */
static AFTER_FORK int32_t ended_pid;
static AFTER_FORK bool is_second_end;

static AFTER_FORK bool are_parents_left; /* not inspected */

static void inspect_at_end(struct heap_slot *slot, void *arg)
{
	(void)arg;
	if (atomic_get(&slot->state) != HEAP_SLOT_LIVE)
		return;
	if (are_parents_left && slot->owner != heap_pid)
		return;
	counter_add(&heap_region->counters[HEAP_LIVE_AT_END], !is_second_end);
	if (!atomic_get(&slot->is_protected))
		inspect(slot);
}

void heap_block_start(void)
{
	memset(pattern_page, PATTERN, sizeof(pattern_page));
	heap_old_start();
}

/*
 * A child has copies of all blocks of its parent. To read them is most of what a child that lives
 * for a moment pays.
 */
static void inspect_all(void)
{
	bool is_affordable = !is_child || heap_budget_is_left();

	if (!is_affordable)
		counter_add(&heap_region->counters[HEAP_LOST_COPIES], 1u);
	atomic_set_if_other(&are_parents_left, !is_affordable);
	if (is_affordable || has_own)
		heap_pool_each(inspect_at_end, NULL);
}

AT_FORK void heap_block_forked(void)
{
	is_child = true;
	has_own = false;
}

void heap_end(void)
{
	if (!heap_range.bytes || heap_is_over || heap_pid != sys_getpid())
		return;
	uint64_t begun = heap_budget_begin_long();

	heap_self.busy++;
	is_second_end = ended_pid == heap_pid;
	ended_pid = heap_pid;
	if (!heap_is_growth)
		inspect_all();
	else if (!is_second_end)
		heap_growth_tell();
	heap_self.busy--;
	if (!is_second_end)
		heap_context_end();
	heap_watch_look();
	heap_budget_spend_long(begun);
	heap_budget_end();
}
