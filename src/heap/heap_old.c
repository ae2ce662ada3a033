/* SPDX-License-Identifier: MIT */
/* heap_old.c - see heap_old.h. */
#include "heap/heap_old.h"

#include "base/atomic.h"
#include "heap/heap.h"
#include "heap/heap_pages.h"

#define NEWEST 64u
#define VECTOR 32u /* that begins in the block */

/* Two threads may mix their halves: then the time is another one, and it is left alone. */
struct noted {
	struct heap_slot *slot;
	uint64_t time_ns;
};

static struct noted ring[NEWEST];
static uint32_t noted_count;
static bool has_masked_vectors;

void heap_old_start(void)
{
#ifdef __x86_64__
	has_masked_vectors = __builtin_cpu_supports("avx512vl");
#endif
}

static bool is_still_there(const struct noted *old)
{
	return atomic_get(&old->slot->state) == HEAP_SLOT_LIVE &&
	       counter_get(&old->slot->allocated.time_ns) == old->time_ns;
}

/* Read once: a page that is not present takes as long. */
static void open_behind(struct heap_slot *slot)
{
	const uintptr_t page = slot->base + slot->room;

	heap_pool_let(page);
	(void)*(const volatile char *)page;
	slot->is_old = 1;
}

static void make_old(const struct noted *old)
{
	struct heap_slot *slot = old->slot;

	if (!is_still_there(old) || slot->start + slot->bytes + VECTOR <= slot->base + slot->room ||
	    !heap_pages_hold(slot))
		return;
	if (is_still_there(old) && !atomic_get(&slot->is_open_behind) && !heap_is_over)
		open_behind(slot);
	heap_pages_let_go(slot);
}

void heap_old_note(struct heap_slot *slot)
{
	if (!has_masked_vectors || heap_region->settings.first)
		return;
	struct noted *at = &ring[counter_add(&noted_count, 1u) % NEWEST];
	const struct noted old = { atomic_swap(&at->slot, slot),
				   atomic_swap(&at->time_ns, slot->allocated.time_ns) };

	if (old.slot)
		make_old(&old);
}
