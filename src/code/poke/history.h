/* SPDX-License-Identifier: MIT */
/* history.h - see history.c. */
#ifndef CODE_POKE_HISTORY_H
#define CODE_POKE_HISTORY_H

#include "base/hash.h"
#include "code/poke/poke_view.h"

/*
 * Every address that an int3 was ever put at, as a bit in its page's map: an int3 that has gone is
 * Trapline's only there. Pages are never forgotten. Open addressing; page 0 is free.
 */
#define HISTORY_PAGES 65536u
#define HISTORY_WORDS (4096u / 64)
struct history_page {
	uint64_t page;
	uint64_t *bits;
};
extern struct history_page poke_history[HISTORY_PAGES];
static inline size_t history_place(uint64_t page)
{
	return (page * HASH_MIX >> 40) % HISTORY_PAGES;
}
/* Note the sites of a batch, before it is published. 0, -ENOMEM, or -ENOSPC: too many pages. */
int history_add(const struct poke_batch *batch);

#endif
