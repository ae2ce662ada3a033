/* SPDX-License-Identifier: MIT */
/*
 * race_focus.c - the subset runs of a sweep: only a few sites are stalled.
 *
 * If every site is trapped, the second thread is stalled before it reaches the first one.
 * And a program with large libraries spends its time at traps that no two threads share.
 * So half of the time goes into runs with a few random sites of those that were stalled
 * before. Only these are trapped, and all other code runs at full speed.
 */
#include "cli/race/race_focus.h"

#include "base/clock.h"

#include <sys/random.h>

#define FIRST_RUNS 2u /* go for all: there is nothing yet to draw from */
#define SITES_FOR_ONE_MORE 16u
#define NOTED_RUNS 4u /* one in so many of those that go for all */

uint64_t race_draw(uint64_t below)
{
	uint64_t random = 0;

	/* Where it is refused the clock must do. */
	if (getrandom(&random, sizeof(random), 0) < 0)
		random = clock_now_ns();
	return random % below;
}

/* Sites with a conflict hint. */
struct hinted {
	uint64_t places[RACE_HELD];
	uint64_t count;
	bool is_open; /* no race was observed there yet */
};

/* Those where no race was observed yet, if there are any. */
static void find_hinted(struct race_region *region, uint64_t known, struct hinted *hinted)
{
	hinted->count = 0;
	hinted->is_open = false;
	for (uint64_t i = 0; i < known; i++) {
		const struct race_site *site = race_find_site(region, region->held[i]);

		if (!site || !site->meets || (hinted->is_open && site->found))
			continue;
		if (!hinted->is_open && !site->found) {
			hinted->is_open = true;
			hinted->count = 0;
		}
		hinted->places[hinted->count++] = region->held[i];
	}
}

/* Half of them are sites with a conflict hint, if there are any. */
static uint64_t draw_site(const struct race_region *region, uint64_t known,
			  const struct hinted *hinted)
{
	if (hinted->count && race_draw(2))
		return hinted->places[race_draw(hinted->count)];
	return region->held[race_draw(known)];
}

void race_focus_ran(struct race_focus *focus, uint64_t took_ns)
{
	focus->runs++;
	focus->others += !focus->is_on;
	*(focus->is_on ? &focus->focused_ns : &focus->other_ns) += took_ns;
}

void race_focus_on(struct race_focus *focus, struct race_region *region, const uint64_t *places,
		   size_t count)
{
	focus->is_on = true;
	__atomic_store_n(&region->is_noting, 0u, __ATOMIC_RELEASE);
	for (size_t i = 0; i < count; i++)
		region->focus[i] = places[i];
	__atomic_store_n(&region->focus_count, count, __ATOMIC_RELEASE);
}

/* The processes of the last run have ended, or continue with what they have. */
void race_focus_choose(struct race_focus *focus, struct race_region *region)
{
	static struct hinted hinted;
	uint64_t known = __atomic_load_n(&region->sites_covered, __ATOMIC_ACQUIRE);

	if (known > RACE_HELD)
		known = RACE_HELD;
	focus->is_on = focus->runs >= FIRST_RUNS && focus->focused_ns <= focus->other_ns &&
		       known > 1 && !region->sites_refused;
	__atomic_store_n(&region->focus_count, 0u, __ATOMIC_RELEASE);
	/* Not among the first ones: most races are found by then. */
	__atomic_store_n(&region->is_noting,
			 !focus->is_on && focus->others % NOTED_RUNS == NOTED_RUNS / 2,
			 __ATOMIC_RELEASE);
	if (!focus->is_on)
		return;
	uint64_t most = 1 + known / SITES_FOR_ONE_MORE;
	uint64_t count = 1 + race_draw(most < RACE_FOCUS ? most : RACE_FOCUS);
	find_hinted(region, known, &hinted);
	for (uint64_t i = 0; i < count; i++)
		region->focus[i] = draw_site(region, known, &hinted);
	__atomic_store_n(&region->focus_count, count, __ATOMIC_RELEASE);
}
