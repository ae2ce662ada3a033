/* SPDX-License-Identifier: MIT */
/* race_tick.c - a sample in a thread: is it time to stall it, and before which access? */
#include "race/race_tick.h"

#include <errno.h>

#include "base/clock.h"
#include "base/trap_path.h"
#include "race/race.h"
#include "race/race_aim.h"
#include "race/race_budget.h"
#include "race/race_end.h"
#include "race/race_outside.h"
#include "race/race_state.h"
#include "race/race_turn.h"
#include "race/race_walk.h"
#include "race/stall/race_stall.h"
#include "record/race_region.h"
#include "trap/room.h"

/* One of this many samples goes to an access seen elsewhere. */
#define SEEN_INSTEAD 8
/* The signal of one from outside. */
#define TICK_SIGNAL_NS 4000u
/* Most are done by then; another one inside it would be for nothing. */
#define TICK_LASTS_NS 1000000u

TRAP_PATH static void on_tick(const struct trapline_hit *hit)
{
	uint64_t now = hit->time_ns;
	uint64_t pc;

	race_aims_drop_missed(now);
	if (!trap_has_room(RACE_ROOM_TICK)) {
		race_count(RACE_STALLS_NO_ROOM);
		return;
	}
	race_turn_take(hit->ip, now);
	if (!race_budget_allows(now)) {
		race_count(RACE_SAMPLES_EARLY);
		return;
	}
	if (race_is_alone(now)) {
		race_count(RACE_SAMPLES_ALONE);
		return;
	}
	int err = race_walk(hit, &pc);
	if (err)
		race_count(err == -EACCES ? RACE_SAMPLES_EXCLUDED : RACE_SAMPLES_NOTHING);
	if (err || race_random() % SEEN_INSTEAD == 0 || race_is_tired_of(pc))
		err = race_choose_seen(&pc) ? err : 0;
	if (err && race_walk_anywhere(&pc))
		return;
	if (pc == hit->ip) {
		race_stall(hit, NULL, NULL);
		return;
	}
	race_count(race_aim_at(hit->tid, pc) ? RACE_AIMS_REFUSED : RACE_AIMS);
}

TRAP_PATH enum trapline_action race_on_timer(const struct trapline_hit *hit)
{
	uint64_t cpu_ns = race_thread_cpu_ns();

	race_gate_open_at(hit->time_ns + TICK_LASTS_NS);
	if (race_end_if_over())
		return TRAPLINE_GO_ON;
	race_count(RACE_SAMPLES);
	if (!hit->async && !race_is_stopped())
		on_tick(hit);
	/* With that of a stall, which is counted there too: it errs on the safe side. */
	race_budget_spend(race_thread_cpu_ns() - cpu_ns +
				  (race.flags & RACE_HAS_TICKS ? TICK_SIGNAL_NS :
								 race.budget.trap_ns),
			  1);
	race_gate_set(clock_now_ns());
	return TRAPLINE_GO_ON;
}
