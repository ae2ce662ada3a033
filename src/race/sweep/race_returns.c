/* SPDX-License-Identifier: MIT */
/*
 * race_returns.c - does a call come back? Not in a handler.
 *
 * The objects of this process are those that the loader lists. Where one of them has traps, its
 * code is the copy that was kept.
 */
#include "race/sweep/race_returns.h"

#include <link.h>
#include <string.h>

#include "base/memory.h"
#include "code/insn/insn.h"
#include "code/reach/back.h"
#include "code/reach/linkage.h"
#include "race/race_modules.h"
#include "race/race_state.h"

#define PAGES 64u

static struct back *back; /* NULL: not yet, or there is no memory for it */

static size_t returns_code(void *arg, uint64_t address, void *to, size_t n)
{
	uint64_t page_left = PAGE_BYTES - address % PAGE_BYTES;
	uint64_t bytes;
	const uint8_t *kept = race_kept_code(address, &bytes);

	if (kept) {
		n = n < bytes ? n : (size_t)bytes;
		memcpy(to, kept, n);
		return n;
	}
	if (race_copy(address, to, n))
		return n;
	n = n < page_left ? n : (size_t)page_left;
	return race_copy(address, to, n) ? n : 0;
}

/*
 * Tables of names are read in pieces of some bytes, many of one page. A page is read once, until
 * the objects are listed again. The caller holds the lock of the traps.
 */
static struct {
	uint64_t at; /* 0: none */
	uint8_t bytes[PAGE_BYTES];
} pages[PAGES];

static int copy_from_page(uint64_t address, uint8_t *to, size_t n)
{
	uint64_t at = address - address % PAGE_BYTES;
	uint32_t row = (uint32_t)(at / PAGE_BYTES % PAGES);

	if (pages[row].at != at) {
		pages[row].at = 0;
		if (!race_copy(at, pages[row].bytes, PAGE_BYTES))
			return race_copy(address, to, n);
		pages[row].at = at;
	}
	memcpy(to, pages[row].bytes + address % PAGE_BYTES, n);
	return 1;
}

static int returns_copy(void *arg, uint64_t address, void *to, size_t n)
{
	uint8_t *out = to;

	while (n) {
		size_t left = PAGE_BYTES - address % PAGE_BYTES;
		size_t some = n < left ? n : left;

		if (!copy_from_page(address, out, some))
			return 0;
		address += some;
		out += some;
		n -= some;
	}
	return 1;
}

static int add_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct linkage_object o = { .bias = info->dlpi_addr };

	for (int i = 0; i < info->dlpi_phnum; i++)
		linkage_header(&o, &info->dlpi_phdr[i]);
	linkage_add(arg, &o);
	return 0;
}

void race_returns_renew(void)
{
	const struct back_ops ops = { NULL, returns_code, returns_copy };

	if (!back)
		back = back_open(&ops);
	if (!back)
		return;
	struct linkage *objects = back_objects(back);
	for (uint32_t i = 0; i < PAGES; i++)
		pages[i].at = 0;
	dl_iterate_phdr(add_object, objects);
	/* Then a name may have a definition that is not seen. */
	if (objects->is_full)
		race_count(RACE_LOST_TABLES);
}

int race_call_returns(uint64_t pc, const struct insn *insn)
{
	return back && back_call(back, pc, insn) == BACK_YES;
}

int race_loads_last(uint64_t pc, const uint8_t *code, const struct insn *insn)
{
	return back && back_loads_last(back, pc, code, insn);
}
