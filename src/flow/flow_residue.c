/* SPDX-License-Identifier: MIT */
/*
 * flow_residue.c - where followed bytes lie as they are, at the end.
 *
 * The end is exit(3), _exit(2), abort(3), an exec(3), or that of the search. A signal that ends the
 * process leaves no time to look. Only marked locations are inspected. One counts if its bytes
 * equal those of the source, in a row of at least 8, or all of a source that is shorter.
 */
#include <fcntl.h>
#include <string.h>

#include "base/atomic.h"
#include "base/maps.h"
#include "base/sys.h"
#include "flow/flow_mapped.h"
#include "flow/flow_marks.h"
#include "flow/flow_record.h"
#include "flow/flow_residue.h"
#include "flow/flow_state.h"

#define LEAST 8u
#define MAPS 4096u

struct run {
	uint64_t address;
	uint64_t bytes;
	uint32_t source;
	uint32_t step;
	uint32_t offset; /* of the first */
	int is_found;
};

struct range {
	uint64_t start;
	uint64_t end;
	enum flow_memory memory;
	int is_file; /* flow_mapped.c has reported it */
};

static struct range ranges[MAPS];
static uint32_t range_count;

/* ---- what memory it is ---- */

static enum flow_memory memory_of(const char *name)
{
	if (!strcmp(name, "[heap]"))
		return FLOW_MEMORY_HEAP;
	if (!strncmp(name, "[stack", 6))
		return FLOW_MEMORY_STACK;
	return strchr(name, '/') ? FLOW_MEMORY_DATA : FLOW_MEMORY_OTHER;
}

static void read_maps(void)
{
	struct maps maps;
	char name[64];

	range_count = 0;
	maps_open(&maps, 0, name, sizeof(name));
	for (const struct maps_row *row; range_count < MAPS && (row = maps_next(&maps));)
		ranges[range_count++] = (struct range){ row->start, row->end, memory_of(row->name),
							flow_mapped_is_file(row) };
	maps_close(&maps);
}

static const struct range *range_of(uint64_t address)
{
	for (uint32_t i = 0; i < range_count; i++)
		if (address - ranges[i].start < ranges[i].end - ranges[i].start)
			return &ranges[i];
	return NULL;
}

/*
 * Blocks of glibc lie one behind the other, each with its size before it. 0: it is not to be found.
 */
static uint64_t block_of(const struct range *range, uint64_t address, uint64_t *size)
{
	uint64_t at = range->start;

	for (uint64_t n = 0; n < 1u << 24; n++) {
		uint64_t head[2];

		if (sys_read_memory(sys_getpid(), at, head, sizeof(head)) != sizeof(head))
			return 0;
		const uint64_t bytes = head[1] & ~7ull;
		if (bytes < 32 || bytes % 16 || bytes > range->end - at)
			return 0;
		/* The first 8 bytes of the next one are this one's last. */
		if (address < at + bytes + 8) {
			*size = bytes - 8;
			return address >= at + 16 ? at + 16 : 0;
		}
		at += bytes;
	}
	return 0;
}

/* ---- rows of bytes ---- */

static void report_run(const struct run *run)
{
	const uint32_t all = flow_texts[run->source].count;
	const struct range *range;
	const struct flow_moment m = { .pc = 0 };
	struct flow_wish wish = {
		.kind = FLOW_RESIDUE,
		.grade = run->is_found ? FLOW_GRADE_FOUND : FLOW_GRADE_A,
		.source = run->source,
		.step = run->step,
		.fd = -1,
		.bytes = run->bytes,
		.offset = run->offset,
		.address = run->address,
		.name = "",
	};

	if (run->bytes < LEAST && run->bytes != all)
		return;
	range = range_of(run->address);
	if (range && range->is_file)
		return;
	if (range)
		wish.memory = range->memory;
	if (wish.memory == FLOW_MEMORY_HEAP)
		wish.block = block_of(range, run->address, &wish.block_size);
	flow_record_flow(&m, &wish);
}

static void add_byte(struct run *run, uint64_t address, flow_mark mark)
{
	if (run->bytes && address == run->address + run->bytes &&
	    flow_source_of(mark) == run->source && run->is_found == !!(mark & FLOW_IS_FOUND) &&
	    flow_offset_of(mark) == run->offset + run->bytes) {
		run->bytes++;
		return;
	}
	if (run->bytes)
		report_run(run);
	*run = (struct run){ address,
			     1,
			     flow_source_of(mark),
			     flow_step_of(mark),
			     flow_offset_of(mark),
			     !!(mark & FLOW_IS_FOUND) };
}

static int compare_pages(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint8_t residue_page[4096];

static void look_at(uint64_t page, struct run *run)
{
	uint8_t *bytes = residue_page;
	const flow_mark *marks = flow_marks_page(page);

	if (!marks || sys_read_memory(sys_getpid(), page << 12, bytes, sizeof(residue_page)) !=
			      sizeof(residue_page))
		return;
	for (uint32_t i = 0; i < sizeof(residue_page); i++)
		if (marks[i] && !(marks[i] & FLOW_IS_COMPUTED) &&
		    flow_marks_equals(page, i, marks[i], bytes[i]))
			add_byte(run, (page << 12) + i, marks[i]);
}

/* By address, so that a row over the end of a page is one. */
static void sort(uint64_t *pages, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++) {
		const uint64_t page = pages[i];
		uint32_t k = i;

		for (; k && compare_pages(&pages[k - 1], &page) > 0; k--)
			pages[k] = pages[k - 1];
		pages[k] = page;
	}
}

void flow_residue(void)
{
	static uint64_t pages[2048];
	static uint32_t is_busy;
	struct run run = { 0 };
	uint32_t at = 0;
	uint32_t n = 0;

	/* Another thread ends the process too: one search is enough. */
	if (atomic_swap(&is_busy, 1u))
		return;
	flow_mapped_end();
	for (uint64_t page; n < 2048 && (page = flow_marks_next(&at)) != 0;)
		pages[n++] = page;
	sort(pages, n);
	read_maps();
	for (uint32_t i = 0; i < n; i++)
		look_at(pages[i], &run);
	if (run.bytes)
		report_run(&run);
	memset(residue_page, 0, sizeof(residue_page));
	flow_was_searched();
	atomic_set(&is_busy, 0u);
}
