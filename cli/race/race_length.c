/* SPDX-License-Identifier: MIT */
/* race_length.c - see race_length.h. */
#include "cli/race/race_length.h"

#include "report/race/race_totals.h"

#define LOOK_EVERY_NS 100000000u
#define LEAST_NS 500000000u /* of a run that is ended */
#define NATURAL_RUNS 10u    /* so many times the natural run is far beyond it */
#define NATURAL_NS 2000000000u
#define FIRST_PART 10u /* of the time: the first run, when nothing is known yet */
#define FIRST_LEAST_NS 5000000000u
#define FIRST_MOST_NS 10000000000u
#define ONLY_NS 20000000000u
#define UNDISTURBED_PART 4u
#define UNDISTURBED_MOST_NS 60000000000u
/* Where the time has no limit: taken for it; and for how long a first site is awaited. */
#define NO_LIMIT_NS 20000000000u
#define NO_SITE_NS 60000000000u
/* An undisturbed run is a hang after so many times the longest one, and so long. */
#define COMPARED_RUNS 10u
#define COMPARED_NS 5000000000u
#define DOUBLINGS_MAX 6u
/* Sites that were reached and never stalled do not keep a run that shows nothing new so long. */
#define STILL_SLICES 4u

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
	value = value > most ? most : value;
	return value < least ? least : value;
}

static uint64_t time_of(const struct race_length *l)
{
	return l->time_ns == UINT64_MAX ? NO_LIMIT_NS : l->time_ns;
}

uint64_t race_length_undisturbed_ns(const struct race_length *l, const struct race_undisturbed *u,
				    uint64_t longest_ns)
{
	if (!u->ended && !u->cut)
		return clamp(time_of(l) / UNDISTURBED_PART, LEAST_NS, UNDISTURBED_MOST_NS);
	if (!u->longest_ns)
		return longest_ns;
	uint64_t far = COMPARED_RUNS * u->longest_ns;
	return far > COMPARED_NS ? far : COMPARED_NS;
}

/*
 * Each second run is short, each fourth one twice as long, and so on: what an endless program does
 * late has its turn too.
 */
static uint64_t endless_ns(const struct race_length *l)
{
	uint32_t doublings = 0;

	while (doublings < DOUBLINGS_MAX && l->ended >> doublings & 1)
		doublings++;
	return (uint64_t)LEAST_NS << doublings;
}

/* A run is not ended before. */
static uint64_t least_ns(const struct race_length *l)
{
	if (l->natural_ns)
		return NATURAL_RUNS * l->natural_ns > NATURAL_NS ? NATURAL_RUNS * l->natural_ns :
								   NATURAL_NS;
	if (l->is_endless)
		return endless_ns(l);
	/* It may be slow by its stalls, and no other run will come. */
	if (time_of(l) < FIRST_LEAST_NS)
		return ONLY_NS;
	return clamp(time_of(l) / FIRST_PART, FIRST_LEAST_NS, FIRST_MOST_NS);
}

void race_length_learn(struct race_length *l, uint64_t natural_ns)
{
	l->natural_ns = natural_ns;
	l->is_endless = !natural_ns;
	l->ended = 0; /* short runs come first */
}

void race_length_begin(struct race_length *l, uint64_t now_ns)
{
	l->began_ns = l->sites_since_ns = now_ns;
	l->looked_ns = l->sites = 0;
}

/*
 * A program that has reached no site may be at its beginning, before its first thread. Where the
 * time has a limit, that ends it.
 */
static bool shows_nothing(const struct race_length *l, uint64_t now_ns)
{
	return l->time_ns == UINT64_MAX && now_ns - l->began_ns > NO_SITE_NS;
}

bool race_length_is_over(struct race_length *l, const struct race_region *region, uint64_t now_ns)
{
	uint64_t slice = least_ns(l);
	struct race_coverage c;

	if (now_ns - l->looked_ns < LOOK_EVERY_NS)
		return false;
	l->looked_ns = now_ns;
	race_coverage(region, 1, &c);
	if (c.reached + c.held != l->sites)
		l->sites_since_ns = now_ns;
	l->sites = c.reached + c.held;
	uint64_t still = now_ns - l->sites_since_ns;
	bool is_over =
		!c.held ? shows_nothing(l, now_ns) :
			  now_ns - l->began_ns > slice &&
				  still > (c.held == c.reached ? slice / 2 : STILL_SLICES * slice);
	l->ended += is_over;
	return is_over;
}
