/* SPDX-License-Identifier: MIT */
/*
 * race_last.c - the last stalls of a run, for trapline to read when the run has failed, or a
 * process died.
 *
 * A stall can make the program fail without a second access in it: an assertion of another thread,
 * a time-out, a hang. The record is written before the thread waits, so it is there even if the
 * process does not survive the stall.
 */
#include "race/stall/race_last.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/trap_path.h"
#include "race/race_modules.h"
#include "race/race_state.h"
#include "race/stall/race_found.h"
#include "record/race_region.h"

TRAP_PATH uint64_t race_last_begin(const struct trapline_hit *hit, const struct race_slot *slot,
				   const struct race_code *code)
{
	const struct race_target *t = &slot->target;
	uint64_t at = counter_add(&race.region->stall_at, 1u);
	struct race_last_stall *row = &race.region->last_stalls[at % RACE_LAST_STALLS];

	atomic_set(&row->ready, 0u);
	row->run = race.region->run;
	row->record.time_ns = row->record.held_since_ns = clock_now_ns();
	row->record.address = t->part;
	row->record.place = race_place_of(t->part);
	row->record.len = t->part_len;
	row->record.pid = race.pid;
	row->record.pair = RACE_PAIRS;
	race_fill_first(&row->record, t, hit, code);
	atomic_set(&row->ready, at + 1);
	return at + 1;
}

TRAP_PATH void race_last_end(uint64_t stall)
{
	struct race_last_stall *row = &race.region->last_stalls[(stall - 1) % RACE_LAST_STALLS];

	if (atomic_get(&row->ready) != stall)
		return;
	row->ended_ns = clock_now_ns();
	atomic_set(&row->ended, stall);
}
