/* SPDX-License-Identifier: MIT */
/*
 * heap_fork.c - what forks cost more with the detector.
 *
 * The kernel copies each mapping, and removes it when the child ends. The time of the parent's fork
 * is measured, with what the fork handlers do in it. The detector's part is its part of the
 * mappings: too much of a process whose own memory takes most of the time, never too little.
 */
#include "heap/heap_fork.h"

#include <stdint.h>
#include <string.h>

#include "base/after_fork.h"
#include "base/clock.h"
#include "base/maps.h"
#include "heap/heap.h"
#include "heap/heap_budget.h"

#define NAME_BYTES 64u
#define ROWS_MOST 2000u /* what a process with more pays is less than this states */
#define LOOK_EVERY 64u	/* forks: mappings come and go */
#define PPM 1000000u

/* The thread that forks is alone here: the handlers of forks have a lock. */
static AFTER_FORK struct {
	uint64_t begun_ns; /* CPU time of the thread; 0: nothing is sampled */
	uint64_t forks;
	uint64_t share_ppm;
} at_fork;

static uint64_t share_of_mappings(void)
{
	char name[NAME_BYTES];
	struct maps maps;
	uint64_t rows = 0;
	uint64_t ours = 0;

	maps_open(&maps, 0, name, sizeof(name));
	for (const struct maps_row *row; rows < ROWS_MOST && (row = maps_next(&maps)); rows++)
		ours += strstr(row->name, "trapline") != NULL;
	return maps_close(&maps) || !rows ? PPM : ours * PPM / rows;
}

AT_FORK void heap_fork_begins(void)
{
	at_fork.begun_ns = 0;
	if (!heap_range.bytes || heap_is_over)
		return;
	if (at_fork.forks++ % LOOK_EVERY == 0)
		at_fork.share_ppm = share_of_mappings();
	at_fork.begun_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

AT_FORK void heap_fork_ended(void)
{
	if (!at_fork.begun_ns)
		return;
	const uint64_t took = clock_ns(CLOCK_THREAD_CPUTIME_ID) - at_fork.begun_ns;

	heap_budget_add_fork(took / 1000 * at_fork.share_ppm / (PPM / 1000));
}
