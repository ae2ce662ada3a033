/* SPDX-License-Identifier: MIT */
/*
 * race_birth.c - the creation of a thread counts as a sample.
 *
 * A clock gives a sample after a thread has run for its period. Threads with a shorter
 * life are never sampled, and the thread that creates them is inside the kernel or libc
 * most of the time. But the address where they begin is known before they exist, and they
 * inherit a breakpoint that is set now. From there, and from accesses that were stalled
 * before, the code ahead is followed. Step by step the whole life of such threads is
 * reached.
 *
 * These samples come at most as often as those of the clock, so that they cost at most as
 * much, and they are part of the budget.
 */
#include "race/race_birth.h"

#include <errno.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "event/event.h"
#include "race/race.h"
#include "race/race_aim.h"
#include "race/race_budget.h"
#include "race/race_end.h"
#include "race/race_state.h"
#include "race/race_strategy.h"
#include "race/race_walk.h"
#include "race/watch/race_watch.h"
#include "record/race_region.h"
#include "trap/inflight.h"

struct race_births race_births;

/* As the fast clock; the budget states when it shall be slower. */
#define PACE_NS 200000u

/* 1: the caller is the one whose turn it is. */
static int is_time(uint64_t now_ns)
{
	uint64_t next = counter_get(&race.birth_next_ns);

	return now_ns >= next && atomic_cas(&race.birth_next_ns, &next, now_ns + PACE_NS);
}

/*
 * A clock that was switched to its steady period takes a part of the budget, and so do thread
 * creations.
 */
static void slow_down(uint64_t now_ns)
{
	const struct trapline_event *timer = race.timers[counter_get(&race.budget.timer)];
	uint64_t period = timer ? timer->period : 0;
	uint64_t wait = race_budget_wait_ns(now_ns);

	wait = wait < period ? period : wait;
	if (wait > PACE_NS)
		atomic_set(&race.birth_next_ns, now_ns + wait);
}

static int birth_choose(uint64_t start, uint64_t *pc)
{
	uint32_t way = (uint32_t)(race_random() % 8);
	int err = -ENOENT;

	if (way < 4 && !race_choose_seen(pc))
		err = way ? race_walk_from(*pc, pc) : 0;
	if (err && way < 7)
		err = race_walk_from(start, pc);
	return err ? race_walk_anywhere(pc) : 0;
}

static void tick(uint64_t start)
{
	uint64_t cpu_ns = race_thread_cpu_ns();
	uint64_t pc;

	race_count(RACE_SAMPLES);
	race_count(RACE_SAMPLES_BIRTHS);
	if (!race_budget_allows(clock_now_ns()))
		race_count(RACE_SAMPLES_EARLY);
	else if (birth_choose(start, &pc))
		race_count(RACE_SAMPLES_NOTHING);
	else
		race_count(race_aim_at_birth(pc) ? RACE_AIMS_REFUSED : RACE_AIMS);
	race_budget_spend(race_thread_cpu_ns() - cpu_ns, 1);
	slow_down(clock_now_ns());
}

/*
 * As in a callback: a search that ends in the meantime waits for Trapline, and no handler comes on
 * top.
 */
static void tick_undisturbed(uint64_t start)
{
	const uint64_t all = ~0ull;
	uint64_t mask;

	if (sys4(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, &all, &mask, sizeof(mask)))
		return;
	uint64_t *entry = inflight_enter(sys_gettid(), race.shared_aim.event->index);
	if (entry && atomic_get(&race.phase) == RACE_RUNNING && !race_is_stopped())
		tick(start);
	inflight_leave(entry);
	sys4(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, &mask, NULL, sizeof(mask));
}

/* With many threads and clocks of their own, each has a breakpoint that no other inherits. */
static int can_be_inherited(void)
{
	return atomic_get(&race.has_shared_aim) ||
	       (race_watch->opens_again && race.shared_aim.event);
}

void race_birth_begins(uint64_t start)
{
	int runs = atomic_get(&race.phase) == RACE_RUNNING;

	/*
	 * Where no sample comes any more when the command was killed, nothing else would notice it.
	 */
	if (runs && race.gate && !race.clocks.count && race_end_if_over())
		runs = 0;
	atomic_add(&race_births.begun, 1u);
	if (runs && can_be_inherited() && race_strategy->samples_births && is_time(clock_now_ns()))
		tick_undisturbed(start);
}

void race_birth_ends(void)
{
	atomic_add(&race_births.ended, 1u);
}
