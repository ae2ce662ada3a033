/* SPDX-License-Identifier: MIT */
/*
 * history.c - where an int3 of Trapline ever was.
 *
 * The handler must distinguish an int3 that has gone from others' signals, and from a pc that a
 * debugger has put back already. gdb does that for every int3, and only undoes it for one that it
 * still finds.
 */
#include <errno.h>

#include "base/memory.h"
#include "code/poke/history.h"
#include "code/poke/poke_view.h"

#define CHUNK_BYTES (64u << 10)

static size_t pages_used;
static uint8_t *chunk;
static size_t chunk_left;

static uint64_t *take_bits(void)
{
	size_t bytes = HISTORY_WORDS * sizeof(uint64_t);

	if (chunk_left < bytes) {
		void *more = memory_map(CHUNK_BYTES);
		if (memory_failed(more))
			return NULL;
		chunk = more;
		chunk_left = CHUNK_BYTES;
	}
	chunk_left -= bytes;
	return (uint64_t *)(void *)(chunk + chunk_left);
}

/* The bits first: the handler reads the page first. */
static int find_or_add(uint64_t page, struct history_page **out)
{
	size_t at = history_place(page);

	while (poke_history[at].page && poke_history[at].page != page)
		at = (at + 1) % HISTORY_PAGES;
	*out = &poke_history[at];
	if (poke_history[at].page)
		return 0;
	if (pages_used > HISTORY_PAGES / 2)
		return -ENOSPC;
	uint64_t *bits = take_bits();
	if (!bits)
		return -ENOMEM;
	pages_used++;
	atomic_set(&poke_history[at].bits, bits);
	atomic_set(&poke_history[at].page, page);
	return 0;
}

int history_add(const struct poke_batch *batch)
{
	struct history_page *last = NULL;

	for (size_t i = 0; i < batch->count; i++) {
		uint64_t address = batch->entries[i].address;
		uint64_t page = address / PAGE_BYTES;

		if (!last || last->page != page) {
			int err = find_or_add(page, &last);
			if (err)
				return err;
		}
		uint64_t *word = &last->bits[address % PAGE_BYTES / 64];
		uint64_t bit = 1ull << address % 64;
		if (!(*word & bit))
			atomic_set(word, *word | bit);
	}
	return 0;
}
