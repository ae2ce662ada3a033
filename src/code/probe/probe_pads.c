/* SPDX-License-Identifier: MIT */
/*
 * probe_pads.c - see probe_pads.h.
 *
 * A pad is a jump through a pointer behind it, so that it reaches everything. Memory is mapped page
 * by page where nothing else is. Left out is what others expect to grow into: the heap of brk(2),
 * and the first thread's stack. Bytes that are not a pad are int3.
 *
 * Where pads are in a file they cost a fork the least: see pad_file.h.
 */
#include "code/probe/probe_pads.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/sys.h"
#include "code/log/code_stream.h"
#include "code/poke/poke_view.h"
#include "code/poke/text.h"
#include "code/probe/pad_file.h"
#include "record/code_layout.h"

#define PAD_BYTES 14u
#define PLACES_BITS 15
#define PLACES (1u << PLACES_BITS)
#define PAGES_MOST (PLACES / 2)
#define MAP_WORDS (PAGE_BYTES / 64)
#define MAPS_AT_ONCE 16u
#define LOWEST 0x10000u
#define HIGHEST 0x7fffffffe000u
#define STACK_GROWS (256ull << 20)

/* A page of pads, and which of its bytes are taken. */
struct pad_page {
	uint64_t start;
	uint8_t is_mapped;
	uint8_t is_fresh; /* nothing jumps there yet */
	uint64_t *taken;  /* MAP_WORDS of them; they stay the row's */
};

/* Rows are one after the other: a fork copies each page that was written. */
static struct pad_page *pages;
static uint32_t page_count;
static uint16_t *places; /* of rows, from 1 on; open addressing */
static uint64_t *maps;	 /* those that are not given out yet */
static size_t maps_left;

static uint64_t page_of(uint64_t address)
{
	return address & ~(uint64_t)(PAGE_BYTES - 1);
}

static uint16_t *place_of(uint64_t start)
{
	size_t at = start * HASH_MIX >> (64 - PLACES_BITS);

	while (places[at] && pages[places[at] - 1].start != start)
		at = (at + 1) % PLACES;
	return &places[at];
}

/* NULL: it never had a pad. */
static struct pad_page *page_find(uint64_t start)
{
	const uint16_t place = *place_of(start);

	return place ? &pages[place - 1] : NULL;
}

static int is_others(uint64_t start, uint64_t heap_grows)
{
	uint64_t heap = (uint64_t)sys1(SYS_brk, 0);
	uint64_t stack = getauxval(AT_RANDOM);

	return start < LOWEST || start > HIGHEST || start - heap < heap_grows ||
	       stack - start < STACK_GROWS;
}

static const uint8_t filled[PAGE_BYTES] = { [0 ... PAGE_BYTES - 1] = INT3 };

/* Filled before it is executable, where that is permitted. */
static int page_make(uint64_t start)
{
	uint64_t begin_ns = clock_now_ns();

	const int err = pad_file_map(start, filled);

	if (err == -EEXIST)
		return -EBUSY;
	if (err) {
		if (pad_page_map(start))
			return -EBUSY;
		if (text_write_fresh(start, filled, sizeof(filled))) {
			pad_page_unmap(start);
			return -EACCES;
		}
	}
	code_stream_fill(begin_ns, start, sizeof(filled), INT3);
	return 0;
}

/* From a chunk: room for all rows at once would be 8 MiB of address space. NULL: no memory. */
static uint64_t *make_map(void)
{
	if (!maps_left) {
		void *memory = memory_map(MAPS_AT_ONCE * MAP_WORDS * sizeof(*maps));

		if (memory_failed(memory))
			return NULL;
		maps = memory;
		maps_left = MAPS_AT_ONCE;
	}
	return maps + --maps_left * MAP_WORDS;
}

/* The row, or NULL: no memory. */
static struct pad_page *row_need(uint64_t start)
{
	uint16_t *place = place_of(start);

	if (*place)
		return &pages[*place - 1];
	if (page_count == PAGES_MOST)
		return NULL;
	struct pad_page *page = &pages[page_count];
	page->taken = make_map();
	if (!page->taken)
		return NULL;
	page->start = start;
	*place = (uint16_t)++page_count;
	return page;
}

static struct pad_page *page_need(uint64_t start, uint64_t heap_grows)
{
	struct pad_page *page = page_find(start);

	if (page && page->is_mapped)
		return page;
	if (is_others(start, heap_grows) || page_make(start))
		return NULL;
	page = row_need(start);
	if (!page) {
		pad_page_unmap(start);
		return NULL;
	}
	memset(page->taken, 0, MAP_WORDS * sizeof(*page->taken));
	page->is_mapped = 1;
	page->is_fresh = 1;
	return page;
}

/* The row stays: others may have been put behind it. */
static void page_drop_empty(uint64_t start)
{
	struct pad_page *page = page_find(start);

	if (!page || !page->is_mapped)
		return;
	for (size_t i = 0; i < MAP_WORDS; i++)
		if (page->taken[i])
			return;
	uint64_t begin_ns = clock_now_ns();
	pad_page_unmap(start);
	code_stream_fill(begin_ns, start, PAGE_BYTES, CODE_NOTHING);
	page->is_mapped = 0;
}

static int is_taken(uint64_t address)
{
	const struct pad_page *page = page_find(page_of(address));
	uint32_t byte = address & (PAGE_BYTES - 1);

	return !page || (page->taken[byte / 64] >> byte % 64 & 1);
}

static void mark(uint64_t address, int is_pad)
{
	struct pad_page *page = page_find(page_of(address));
	uint32_t byte = address & (PAGE_BYTES - 1);

	if (!page)
		return;
	page->taken[byte / 64] &= ~(1ull << byte % 64);
	page->taken[byte / 64] |= (uint64_t)is_pad << byte % 64;
}

static int pad_claim(uint64_t address, uint64_t heap_grows)
{
	uint64_t last = address + PAD_BYTES - 1;

	if (!page_need(page_of(address), heap_grows) || !page_need(page_of(last), heap_grows))
		return -EBUSY;
	for (uint64_t at = address; at <= last; at++)
		if (is_taken(at))
			return -EBUSY;
	for (uint64_t at = address; at <= last; at++)
		mark(at, 1);
	return 0;
}

static void pad_give(uint64_t address)
{
	for (uint64_t at = address; at < address + PAD_BYTES; at++)
		mark(at, 0);
}

static int write_part(uint64_t address, const uint8_t *bytes, size_t n)
{
	const int is_fresh = page_find(page_of(address))->is_fresh;

	return pad_file_write(address, bytes, n, is_fresh) ? text_write_fresh(address, bytes, n) :
							     0;
}

static int write_parts(uint64_t address, const uint8_t *bytes, size_t n)
{
	size_t first = PAGE_BYTES - (address & (PAGE_BYTES - 1));
	int err;

	first = first < n ? first : n;
	err = write_part(address, bytes, first);
	return err || first == n ? err : write_part(address + first, bytes + first, n - first);
}

static int pad_write(uint64_t address, uint64_t target)
{
	uint8_t bytes[PAD_BYTES] = { 0xff, 0x25, 0, 0, 0, 0 }; /* jmp *0(%rip) */

	memcpy(bytes + 6, &target, sizeof(target));
	struct code_fresh fresh = {
		.begin_ns = clock_now_ns(),
		.address = address,
		.bytes = bytes,
		.len = sizeof(bytes),
	};
	int err = write_parts(address, bytes, sizeof(bytes));

	if (!err)
		code_stream_slot(&fresh);
	return err;
}

static void page_settle(uint64_t start, int err)
{
	struct pad_page *page = page_find(start);

	if (err) {
		page_drop_empty(start);
	} else if (page->is_fresh) {
		pad_file_join(start);
		page->is_fresh = 0;
	}
}

static int need_tables(void)
{
	const size_t rows_bytes = PAGES_MOST * sizeof(*pages);

	if (places)
		return 0;
	char *memory = memory_map(rows_bytes + PLACES * sizeof(*places));
	if (memory_failed(memory))
		return -ENOMEM;
	pages = (struct pad_page *)(void *)memory;
	places = (uint16_t *)(void *)(memory + rows_bytes);
	return 0;
}

int pads_place(const uint64_t *addresses, size_t n, uint64_t target, uint64_t heap_grows)
{
	size_t claimed = 0;
	int err = need_tables();

	if (err)
		return err;
	while (claimed < n && !(err = pad_claim(addresses[claimed], heap_grows)))
		claimed++;
	for (size_t i = 0; i < n && !err; i++)
		err = pad_write(addresses[i], target);
	while (err && claimed)
		pad_give(addresses[--claimed]);
	for (size_t i = 0; i < n; i++) {
		page_settle(page_of(addresses[i]), err);
		page_settle(page_of(addresses[i] + PAD_BYTES - 1), err);
	}
	return err;
}
