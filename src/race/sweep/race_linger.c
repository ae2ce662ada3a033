/* SPDX-License-Identifier: MIT */
/*
 * race_linger.c - in a sweep: a program ends while some of its threads still exist.
 *
 * Many tests do not join their threads: main returns, and the rest of their work never
 * runs. So exit() waits a moment for the threads before all else, in every second
 * process, as long as one of them runs or is stalled. The threads of a pool sleep: if
 * waiting was in vain in most processes, it is done in few.
 */
#include "race/sweep/race_linger.h"

#include <errno.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "race/race_budget.h"
#include "race/race_state.h"
#include "race/stall/race_slot.h"
#include "record/race_region.h"

#define LINGER_NS 500000u /* doubled by chance, */
#define DOUBLINGS 6u	  /* so many times at most less one */
#define STEP_NS 100000
#define RUNS_NS (STEP_NS / 8)
#define EVERY 2u /* process; */
#define EVERY_IN_VAIN 16u
#define TRIED 8u	 /* before that is known */
#define IDLE_STEPS 2	 /* a thread just created has not run in the first one */
#define END_STEPS 10000u /* 1 s and more */

static void step(void)
{
	const struct timespec ts = { 0, STEP_NS };

	sys_nap(&ts);
}

static int is_anybody_held(void)
{
	for (uint32_t i = 0; i < race.slot_count; i++)
		if (atomic_get(&race.slots[i].state) != SLOT_FREE)
			return 1;
	return 0;
}

/*
 * How long threads of the program have run, except for this one. It is not read at once: some less
 * is nothing.
 */
static int64_t others_ns(void)
{
	pid_t keeper = atomic_get(&race.keeper);

	return (int64_t)(race_process_cpu_ns() - race_thread_cpu_ns() -
			 (keeper ? race_cpu_ns_of(keeper) : 0));
}

static void linger_for(uint64_t ns)
{
	uint64_t start = clock_now_ns();
	int is_worth = 0;
	int idle = 0;

	if (race_is_stopped() || race_count_threads() < 2)
		return;
	counter_add(&race.process->counters[RACE_EXITS_DELAYED], 1);
	counter_add(&race.region->exits_waited, 1u);
	do {
		int64_t before = others_ns();

		step();
		int is_idle = !is_anybody_held() && others_ns() - before <= RUNS_NS;
		idle = is_idle ? idle + 1 : 0;
		is_worth |= !is_idle;
	} while (idle < IDLE_STEPS && !race_is_stopped() && clock_now_ns() - start < ns &&
		 race_count_threads() > 1);
	if (is_worth)
		counter_add(&race.region->exits_worth, 1u);
}

/* In a pool's program all ends find threads that sleep. */
static uint32_t how_often(void)
{
	uint32_t waited = counter_get(&race.region->exits_waited);

	return waited < TRIED || counter_get(&race.region->exits_worth) > waited / 4 ?
		       EVERY :
		       EVERY_IN_VAIN;
}

static void linger(void)
{
	atomic_add(&race.lingering, 1u);
	if (race.region && race_random() % how_often() == 0)
		linger_for((uint64_t)LINGER_NS << race_random() % DOUBLINGS);
	atomic_add(&race.lingering, -1u);
}

int race_linger_begin(void)
{
	return atexit(linger) ? -ENOMEM : 0;
}

void race_linger_end(void)
{
	for (uint32_t n = 0; n < END_STEPS && atomic_get(&race.lingering); n++)
		step();
}
