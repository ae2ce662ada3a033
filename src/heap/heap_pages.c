/* SPDX-License-Identifier: MIT */
/*
 * heap_pages.c - see heap_pages.h.
 *
 * Slots get their mapping in rows of 16, since one call for all of them costs as much as for one.
 *
 * Rules: 1. A row is prepared by the thread that wins it by a compare-and-exchange; others take a
 * slot of another row in the meantime. 2. The pages of a slot that has no block in use are closed,
 * and its bytes given back, by a thread that has taken it. 3. A thread that takes a slot has it
 * until its block is in use.
 */
#include "heap/heap_pages.h"

#include <string.h>
#include <sys/mman.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "base/memory.h"
#include "base/table_size.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

#define ROW_SLOTS 16u
#define ROWS (HEAP_PAGE_SLOTS / ROW_SLOTS + 1)
#define SMALL_BYTES 256u /* of most blocks: their copies lie close together */
#define HOLD_TRIES 100u

enum row_state {
	ROW_NEW,
	ROW_CHANGES,
	ROW_HAS_REGIONS,
	ROW_HAS_NONE, /* the kernel refused */
};

static uint32_t rows[ROWS];
static bool has_regions;
static char *small_copies; /* of freed blocks, SMALL_BYTES each */
static char *large_copies; /* a page each */

static bool protect(uintptr_t start, size_t bytes, int access)
{
	return !sys3(SYS_mprotect, start, bytes, access);
}

static bool install(uintptr_t start, size_t bytes)
{
	return !sys3(SYS_madvise, start, bytes, MADV_GUARD_INSTALL);
}

static bool remove_regions(uintptr_t start, size_t bytes)
{
	return !sys3(SYS_madvise, start, bytes, MADV_GUARD_REMOVE);
}

/* The first page of the pool has no access in any case. */
void heap_pages_start(uintptr_t pool, bool may_have_regions)
{
	has_regions = false;
	if (!may_have_regions || !install(pool, PAGE_BYTES))
		return;
	char *copies = memory_map_sparse(HEAP_PAGE_SLOTS * (size_t)(SMALL_BYTES + PAGE_BYTES));
	if (memory_failed(copies))
		return;
	small_copies = copies;
	large_copies = copies + HEAP_PAGE_SLOTS * (size_t)SMALL_BYTES;
	has_regions = true;
}

bool heap_pages_are_regions(void)
{
	return has_regions;
}

bool heap_pages_hold(struct heap_slot *slot)
{
	uint32_t was = 0;

	return atomic_cas(&slot->is_held, &was, 1u);
}

void heap_pages_let_go(struct heap_slot *slot)
{
	atomic_set(&slot->is_held, 0u);
}

/* ---- guard regions ---- */

static bool is_in_regions(const struct heap_slot *slot)
{
	return has_regions && slot->room == PAGE_BYTES &&
	       atomic_get(&rows[slot->number / ROW_SLOTS]) == ROW_HAS_REGIONS;
}

static enum row_state prepare_row(struct heap_slot *slot)
{
	uintptr_t stride = slot->room + PAGE_BYTES;
	uint32_t first = slot->number / ROW_SLOTS * ROW_SLOTS;
	uint32_t count = HEAP_PAGE_SLOTS - first < ROW_SLOTS ? HEAP_PAGE_SLOTS - first : ROW_SLOTS;
	uintptr_t start = slot->base - (slot->number - first) * stride;

	/* In this order: no other thread meets pages that have access. */
	if (!install(start, count * stride))
		return ROW_HAS_NONE;
	return protect(start, count * stride, PROT_READ | PROT_WRITE) ? ROW_HAS_REGIONS : ROW_NEW;
}

static uint32_t *row_of(const struct heap_slot *slot)
{
	return &rows[slot->number / ROW_SLOTS];
}

static bool needs_row(const struct heap_slot *slot)
{
	return has_regions && slot->room == PAGE_BYTES;
}

/* The slot is taken. false: another thread prepares the row. */
static bool is_row_free(struct heap_slot *slot)
{
	uint32_t state = ROW_NEW;

	if (needs_row(slot) && atomic_cas(row_of(slot), &state, (uint32_t)ROW_CHANGES))
		atomic_set(row_of(slot), (uint32_t)prepare_row(slot));
	return !needs_row(slot) || state != ROW_CHANGES;
}

bool heap_pages_take(struct heap_slot *slot)
{
	if (!heap_pages_hold(slot))
		return false;
	if (is_row_free(slot))
		return true;
	heap_pages_let_go(slot);
	return false;
}

AT_FORK void heap_pages_forked(void)
{
	for (uint32_t i = 0; i < ROWS; i++)
		if (atomic_get(&rows[i]) == ROW_CHANGES)
			atomic_set(&rows[i], (uint32_t)ROW_NEW);
}

static char *copy_of(const struct heap_slot *slot)
{
	return slot->bytes <= SMALL_BYTES ? small_copies + (size_t)slot->number * SMALL_BYTES :
					    large_copies + (size_t)slot->number * PAGE_BYTES;
}

/* The slot is taken. Its bytes are kept, since the kernel drops the page. */
static bool close_region(struct heap_slot *slot)
{
	if (slot->is_shut)
		return protect(slot->base, slot->room, PROT_NONE);
	if (!slot->has_copy)
		memcpy(copy_of(slot), (const void *)slot->start, slot->bytes);
	slot->has_copy = install(slot->base, slot->room);
	slot->is_shut = !slot->has_copy;
	return slot->has_copy || protect(slot->base, slot->room, PROT_NONE);
}

/* After the page has access again. */
static void give_bytes_back(struct heap_slot *slot)
{
	bool is_ours = heap_pages_hold(slot);

	/* In a handler on top of the thread that has it, it would be for ever. */
	for (uint32_t n = 0; !is_ours && n < HOLD_TRIES; n++) {
		sys_sched_yield();
		is_ours = heap_pages_hold(slot);
	}
	if (!is_ours)
		return;
	if (slot->has_copy && atomic_get(&slot->state) == HEAP_SLOT_FREED) {
		memcpy((void *)slot->start, copy_of(slot), slot->bytes);
		slot->has_copy = false;
	}
	heap_pages_let_go(slot);
}

static bool is_used(const struct heap_slot *slot)
{
	return slot && slot->number < heap_pool_used(slot->size_class);
}

static void open_regions(uintptr_t page, size_t span)
{
	struct heap_slot *slot = heap_pool_slot(page);

	remove_regions(page, span);
	if (!slot)
		slot = heap_pool_slot(page + PAGE_BYTES);
	/* No row behind is touched: each fork would copy its page from then on. */
	for (; is_used(slot) && slot->base < page + span; slot = heap_pool_next(slot))
		if (is_in_regions(slot) && slot->base + slot->room > page)
			give_bytes_back(slot);
}

/* ---- slots ---- */

static bool close_page_behind(const struct heap_slot *slot)
{
	uintptr_t page = slot->base + slot->room;

	return (is_in_regions(slot) && install(page, PAGE_BYTES)) ||
	       protect(page, PAGE_BYTES, PROT_NONE);
}

/* The page behind it may have been given access. */
static void close_behind(struct heap_slot *slot)
{
	if (atomic_get(&slot->is_open_behind) && atomic_swap(&slot->is_open_behind, 0u))
		close_page_behind(slot);
}

/*
 * Memory that could be written once is accounted by the kernel, also without access later. So a
 * slot is never joined with the pages around it, which were not: later changes of its access split
 * and join nothing.
 */
bool heap_pool_open(struct heap_slot *slot)
{
	if (needs_row(slot) && atomic_get(row_of(slot)) == ROW_NEW)
		return false;
	close_behind(slot);
	if (!is_in_regions(slot))
		return protect(slot->base, slot->room, PROT_READ | PROT_WRITE);
	if (slot->is_shut && !protect(slot->base, slot->room, PROT_READ | PROT_WRITE))
		return false;
	slot->is_shut = false;
	slot->has_copy = false;
	return remove_regions(slot->base, slot->room);
}

void heap_pool_open_again(struct heap_slot *slot)
{
	protect(slot->base, slot->room, PROT_READ | PROT_WRITE);
}

bool heap_pool_close(struct heap_slot *slot)
{
	close_behind(slot);
	return is_in_regions(slot) ? close_region(slot) :
				     protect(slot->base, slot->room, PROT_NONE);
}

/* ---- ranges ---- */

static void note_open(uintptr_t address, size_t bytes)
{
	struct heap_slot *slot = heap_pool_slot(address);

	for (; slot && slot->base < address + bytes; slot = heap_pool_next(slot))
		if (slot->base + slot->room < address + bytes)
			atomic_set(&slot->is_open_behind, 1u);
}

void heap_pool_let_all(uintptr_t address, size_t bytes)
{
	uintptr_t page = address & ~(uintptr_t)(PAGE_BYTES - 1);
	size_t span = (address + bytes - page + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);

	note_open(page, span);
	/* Too many mappings: as one, they are fewer. The program must continue. */
	if (!protect(page, span, PROT_READ | PROT_WRITE))
		protect(heap_range.start, heap_range.bytes, PROT_READ | PROT_WRITE);
	if (has_regions)
		open_regions(page, span);
}

void heap_pool_let(uintptr_t address)
{
	heap_pool_let_all(address, 1);
}

/* Another thread may take it in the meantime: then it has access. */
static void close_again(struct heap_slot *slot)
{
	uint32_t state = atomic_get(&slot->state);

	if (state != HEAP_SLOT_FREED && state != HEAP_SLOT_NEW)
		return;
	if (is_in_regions(slot)) {
		if (!heap_pages_hold(slot))
			return;
		if (state == HEAP_SLOT_FREED)
			close_region(slot);
		else
			install(slot->base, slot->room);
		heap_pages_let_go(slot);
		return;
	}
	protect(slot->base, slot->room, PROT_NONE);
	if (atomic_get(&slot->state) != state)
		protect(slot->base, slot->room, PROT_READ | PROT_WRITE);
}

void heap_pool_close_again(uintptr_t address, size_t bytes)
{
	struct heap_slot *slot = heap_pool_slot(address);

	for (; slot && slot->base < address + bytes; slot = heap_pool_next(slot)) {
		close_again(slot);
		close_page_behind(slot);
	}
}

static void close_row_slot(struct heap_slot *slot)
{
	if (is_in_regions(slot) && atomic_get(&slot->state) != HEAP_SLOT_LIVE)
		heap_pool_close_again(slot->base, 1);
	else if (is_in_regions(slot))
		close_page_behind(slot);
}

/* Pages that are in no row with regions. */
static void close_between(uintptr_t from, uintptr_t to)
{
	if (from < to)
		protect(from, to - from, PROT_NONE);
}

/* With those of a row that is not used to its end. */
static uint32_t count_of(uint32_t size_class)
{
	uint32_t used = heap_pool_used(size_class);
	uint32_t whole = (used + ROW_SLOTS - 1) / ROW_SLOTS * ROW_SLOTS;

	if (!has_regions || size_class)
		return used;
	return whole < HEAP_PAGE_SLOTS ? whole : HEAP_PAGE_SLOTS;
}

void heap_pool_close_unused(void)
{
	uintptr_t from = heap_range.start;

	for (uint32_t i = 0; i < HEAP_CLASSES; i++)
		for (uint32_t k = 0; k < count_of(i); k++) {
			struct heap_slot *slot = heap_pool_at(i, k);
			bool is_region = is_in_regions(slot);

			if (!is_region && atomic_get(&slot->state) != HEAP_SLOT_LIVE)
				continue;
			close_between(from, slot->base);
			from = slot->base + slot->room + (is_region ? PAGE_BYTES : 0);
			close_row_slot(slot);
		}
	close_between(from, heap_range.start + heap_range.bytes);
}
