/* SPDX-License-Identifier: MIT */
/*
 * probe_pads.c - see probe_pads.h.
 *
 * A pad is a jump through a pointer behind it, so that it reaches everything. Memory is mapped page
 * by page where nothing else is. Left out is what others expect to grow into: the heap of brk(2),
 * and the first thread's stack. Bytes that are not a pad are int3.
 *
 * A fork copies the page tables of memory that the process has written, and each pad's page has a
 * table of its own, as it is far from all others. So after an attach the pads that make a page are
 * written into a file, which is mapped. The kernel fills a child's table when it comes there.
 */
#include "code/probe/probe_pads.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/memory_file.h"
#include "base/own_fd.h"
#include "base/own_status.h"
#include "base/sys.h"
#include "code/log/code_stream.h"
#include "code/poke/poke_view.h"
#include "code/poke/text.h"
#include "record/code_layout.h"

#define PAD_BYTES 14u
#define PAGES_BITS 15
#define PAGES (1u << PAGES_BITS)
#define PAGES_USED_MAX (PAGES / 2)
#define MAP_WORDS (PAGE_BYTES / 64)
#define MAPS_AT_ONCE 128u
#define LOWEST 0x10000u
#define HIGHEST 0x7fffffffe000u
#define STACK_GROWS (256ull << 20)
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* A page of pads, and which of its bytes are taken. */
struct pad_page {
	uint64_t start; /* 0: the row is free */
	int is_mapped;
	int fd;		 /* the file behind it, -1: none, or its pads are in use */
	uint64_t *taken; /* MAP_WORDS of them; they stay the row's */
};

static struct pad_page *pages; /* open addressing */
static size_t page_count;
static uint64_t *maps; /* those that are not given out yet */
static size_t maps_left;

static uint64_t page_of(uint64_t address)
{
	return address & ~(uint64_t)(PAGE_BYTES - 1);
}

static struct pad_page *page_find(uint64_t start)
{
	size_t at = start * HASH_MIX >> (64 - PAGES_BITS);

	while (pages[at].start && pages[at].start != start)
		at = (at + 1) % PAGES;
	return &pages[at];
}

static int is_others(uint64_t start, uint64_t heap_grows)
{
	uint64_t heap = (uint64_t)sys1(SYS_brk, 0);
	uint64_t stack = getauxval(AT_RANDOM);

	return start < LOWEST || start > HIGHEST || start - heap < heap_grows ||
	       stack - start < STACK_GROWS;
}

static const uint8_t filled[PAGE_BYTES] = { [0 ... PAGE_BYTES - 1] = INT3 };

/* Whether it has start: before v4.17 the flag is a hint only. */
static int map_at(uint64_t start, int flags, int fd)
{
	uint64_t at = (uint64_t)sys_mmap((void *)(uintptr_t)start, PAGE_BYTES,
					 PROT_READ | PROT_EXEC,
					 MAP_PRIVATE | MAP_FIXED_NOREPLACE | flags, fd, 0);

	if (!memory_failed((void *)(uintptr_t)at) && at != start)
		memory_unmap((void *)(uintptr_t)at, PAGE_BYTES);
	return at == start;
}

/*
 * In Trapline's own table of descriptors: in the program's, its open(2) would miss a number for a
 * moment. And a filter may kill a thread that makes a file, where it permits mmap(2).
 */
static int open_page(void)
{
	if (!atomic_get(&own_fd_table) || own_status("\nSeccomp:\t") != '0')
		return -EPERM;
	return memory_file("trapline-pads", PAGE_BYTES);
}

static int page_of_file(uint64_t start)
{
	int fd = open_page();

	if (fd >= 0 && sys_of_fd(SYS_pwrite64, fd, filled, PAGE_BYTES, 0, 0) == PAGE_BYTES &&
	    map_at(start, 0, fd))
		return fd;
	if (fd >= 0)
		sys_close(fd);
	return -1;
}

/* Filled before it is executable, where that is permitted. */
static int page_make(uint64_t start, int *fd)
{
	uint64_t begin_ns = clock_now_ns();

	*fd = page_of_file(start);
	if (*fd < 0) {
		if (!map_at(start, MAP_ANONYMOUS, -1))
			return -EBUSY;
		if (text_write_fresh(start, filled, sizeof(filled))) {
			memory_unmap((void *)(uintptr_t)start, PAGE_BYTES);
			return -EACCES;
		}
	}
	code_stream_fill(begin_ns, start, sizeof(filled), INT3);
	return 0;
}

static void page_close(struct pad_page *page)
{
	if (page->start && page->is_mapped && page->fd >= 0) {
		sys_close(page->fd);
		page->fd = -1;
	}
}

/* From a chunk: room for all rows at once would be 16 MiB of address space. NULL: no memory. */
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
static struct pad_page *row_begin(struct pad_page *page, uint64_t start, int fd)
{
	if (!page->taken)
		page->taken = make_map();
	if (!page->taken)
		return NULL;
	memset(page->taken, 0, MAP_WORDS * sizeof(*page->taken));
	page_count += !page->start;
	page->start = start;
	page->is_mapped = 1;
	page->fd = fd;
	return page;
}

static struct pad_page *page_need(uint64_t start, uint64_t heap_grows)
{
	struct pad_page *page = page_find(start);

	if (page->start && page->is_mapped)
		return page;
	if ((!page->start && page_count == PAGES_USED_MAX) || is_others(start, heap_grows))
		return NULL;
	int fd;
	if (page_make(start, &fd))
		return NULL;
	if (row_begin(page, start, fd))
		return page;
	memory_unmap((void *)(uintptr_t)start, PAGE_BYTES);
	if (fd >= 0)
		sys_close(fd);
	return NULL;
}

/* The row stays: others may have been put behind it. */
static void page_drop_empty(uint64_t start)
{
	struct pad_page *page = page_find(start);

	if (!page->start || !page->is_mapped)
		return;
	for (size_t i = 0; i < MAP_WORDS; i++)
		if (page->taken[i])
			return;
	uint64_t begin_ns = clock_now_ns();
	page_close(page);
	memory_unmap((void *)(uintptr_t)start, PAGE_BYTES);
	code_stream_fill(begin_ns, start, PAGE_BYTES, CODE_NOTHING);
	page->is_mapped = 0;
}

static int is_taken(uint64_t address)
{
	const struct pad_page *page = page_find(page_of(address));
	uint32_t byte = address & (PAGE_BYTES - 1);

	return page->taken[byte / 64] >> byte % 64 & 1;
}

static void mark(uint64_t address, int is_pad)
{
	struct pad_page *page = page_find(page_of(address));
	uint32_t byte = address & (PAGE_BYTES - 1);

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

/* In one page. Threads may be on one without a file: the mapping copies it then. */
static int write_part(uint64_t address, const uint8_t *bytes, size_t n)
{
	const int fd = page_find(page_of(address))->fd;

	if (fd < 0)
		return text_write_fresh(address, bytes, n);
	return sys_of_fd(SYS_pwrite64, fd, bytes, n, address & (PAGE_BYTES - 1), 0) == (long)n ?
		       0 :
		       -EACCES;
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

static int need_table(void)
{
	void *memory = pages ? pages : memory_map(PAGES * sizeof(*pages));

	if (memory_failed(memory))
		return -ENOMEM;
	pages = memory;
	return 0;
}

int pads_place(const uint64_t *addresses, size_t n, uint64_t target, uint64_t heap_grows)
{
	size_t claimed = 0;
	int err = need_table();

	if (err)
		return err;
	while (claimed < n && !(err = pad_claim(addresses[claimed], heap_grows)))
		claimed++;
	for (size_t i = 0; i < n && !err; i++)
		err = pad_write(addresses[i], target);
	while (err && claimed)
		pad_give(addresses[--claimed]);
	for (size_t i = 0; i < n; i++) {
		const uint64_t ends[] = { page_of(addresses[i]),
					  page_of(addresses[i] + PAD_BYTES - 1) };

		for (int end = 0; end < 2; end++) {
			if (err)
				page_drop_empty(ends[end]);
			page_close(page_find(ends[end]));
		}
	}
	return err;
}
