/* SPDX-License-Identifier: MIT */
/* heap_growth.c - see heap_growth.h. */
#include "heap/heap_growth.h"

#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "heap/heap_draw.h"
#include "heap/heap_stacks.h"
#include "heap/heap_tell.h"

#define SINGLE 1u /* with HEAP_DRAWN: it stands for itself */
#define ALIGNED_MOST 64u
#define GIVE_BACK_BYTES ((size_t)64 << 10)
#define THIRDS 3u
#define STACKS_MOST (1u << 16)

static uint64_t started_ns;

void heap_growth_start(const struct heap_region *region)
{
	heap_is_growth = region->settings.growth != 0;
	started_ns = clock_now_ns();
}

uint32_t heap_growth_wants(const struct heap_request *r, uint32_t nth)
{
	if (!heap_range.bytes || heap_is_over || heap_self.busy || r->alignment > ALIGNED_MOST)
		return 0;
	return r->bytes >= HEAP_LARGE_BYTES ? HEAP_DRAWN | SINGLE : nth;
}

/* 0: it goes by. */
static uint32_t weight_of(const struct heap_request *r, uint32_t nth)
{
	const uint32_t thin = heap_pool_thin(r->bytes);
	const uint64_t weight = (uint64_t)(nth & SINGLE ? 1 : heap_draw_mean()) * thin;

	if (!thin)
		counter_add(&heap_region->counters[HEAP_LOST_FULL], 1u);
	if (!thin || (thin > 1 && heap_random() % thin))
		return 0;
	return weight < UINT32_MAX ? (uint32_t)weight : UINT32_MAX;
}

void *heap_growth_take(const struct heap_request *r, uint32_t nth)
{
	const uint32_t weight = weight_of(r, nth);
	bool is_full;
	struct heap_slot *slot = weight ? heap_pool_pop(r->bytes, &is_full) : NULL;

	if (!slot) {
		if (weight)
			counter_add(
				&heap_region->counters[is_full ? HEAP_LOST_FULL : HEAP_LOST_LARGE],
				1u);
		return NULL;
	}
	atomic_set(&slot->state, (uint32_t)HEAP_SLOT_CHANGING);
	slot->start = slot->base;
	slot->bytes = r->bytes;
	slot->family = r->family;
	slot->is_drawn = 1;
	slot->weight = weight;
	slot->owner = heap_pid;
	heap_tell_event(&slot->allocated, r->frame);
	if (r->is_zeroed)
		memset((void *)slot->start, 0, slot->bytes);
	atomic_set(&slot->state, (uint32_t)HEAP_SLOT_LIVE);
	counter_add(&heap_region->counters[HEAP_SAMPLED], 1u);
	if (!(nth & SINGLE))
		heap_draw_count();
	return (void *)slot->start;
}

void heap_growth_give(struct heap_slot *slot)
{
	atomic_set(&slot->state, (uint32_t)HEAP_SLOT_FREED);
	if (slot->room >= GIVE_BACK_BYTES)
		sys3(SYS_madvise, slot->base, slot->room, MADV_DONTNEED);
	heap_pool_push(slot);
	atomic_add(&heap_live, (uint64_t)-1);
}

void heap_growth_pay(uint32_t calls)
{
	counter_add(&heap_region->growth_calls, (uint64_t)calls);
	counter_add(&heap_region->growth_weights, (uint64_t)calls * heap_draw_mean());
}

/* ---- at the end ---- */

static uint16_t row_of_stack[STACKS_MOST]; /* of this process, from 1 on */
static uint64_t now_ns;

static struct heap_growth_row *take_row(const struct heap_slot *slot)
{
	const uint64_t n = counter_add(&heap_region->growth_rows, UINT64_C(1));

	if (n >= HEAP_GROWTH_ROWS) {
		counter_add(&heap_region->counters[HEAP_LOST_ROWS], 1u);
		return NULL;
	}
	struct heap_growth_row *row = &heap_region->growth[n];
	row->run_ns = now_ns - started_ns;
	row->youngest_ns = UINT64_MAX;
	heap_tell_moment(&row->alloc, &slot->allocated);
	row_of_stack[slot->allocated.stack % STACKS_MOST] = (uint16_t)(n + 1);
	return row;
}

static void add_block(struct heap_growth_row *row, const struct heap_slot *slot)
{
	const uint64_t run_ns = now_ns - started_ns;
	const uint64_t at_ns = slot->allocated.time_ns - started_ns;
	const uint64_t age_ns = now_ns - slot->allocated.time_ns;
	const double bytes = (double)slot->bytes;
	const double variance = (double)slot->weight * (slot->weight - 1.0) * bytes * bytes;

	row->sampled++;
	row->blocks += slot->weight;
	row->bytes += slot->weight * slot->bytes;
	row->variance += variance;
	if (at_ns >= run_ns / THIRDS && at_ns < run_ns / THIRDS * 2) {
		row->grown += slot->weight * slot->bytes;
		row->grown_variance += variance;
	}
	if (age_ns < row->youngest_ns)
		row->youngest_ns = age_ns;
	if (age_ns > row->oldest_ns)
		row->oldest_ns = age_ns;
}

/* A copy that a child has of a block of its parent is not its own. */
static void tell_block(struct heap_slot *slot, void *arg)
{
	(void)arg;
	if (atomic_get(&slot->state) != HEAP_SLOT_LIVE || slot->owner != heap_pid)
		return;
	const uint32_t known = row_of_stack[slot->allocated.stack % STACKS_MOST];
	struct heap_growth_row *row = known ? &heap_region->growth[known - 1] : take_row(slot);

	counter_add(&heap_region->counters[HEAP_LIVE_AT_END], 1u);
	if (row)
		add_block(row, slot);
}

static void finish_row(uint32_t known)
{
	if (known)
		atomic_set(&heap_region->growth[known - 1].ready, UINT64_C(1));
}

void heap_growth_tell(void)
{
	now_ns = clock_now_ns();
	memset(row_of_stack, 0, sizeof(row_of_stack));
	heap_pool_each(tell_block, NULL);
	for (uint32_t i = 0; i < STACKS_MOST; i++)
		finish_row(row_of_stack[i]);
}
