/* SPDX-License-Identifier: MIT */
/*
 * race_strategy.h - which accesses a search stalls, for how long, and what that may cost.
 *
 * The settings choose one when the search begins in a process; trapline alone writes those. The
 * tables are constant, so nothing that a process can write becomes a function that a handler calls.
 */
#ifndef RACE_STRATEGY_H
#define RACE_STRATEGY_H

#include <stdint.h>

#include "record/race_region.h"

struct race_spot;

struct race_strategy {
	/* `spot`: where it is trapped; or NULL. */
	uint64_t (*delay_ns)(const struct race_site *site, const struct race_spot *spot,
			     uint64_t now_ns);
	/* So many slices of a stall may pass in which no other thread runs. */
	uint32_t (*patience)(void);
	/* The time that earns budget. own_ns: CPU time that the search used. */
	uint64_t (*earned_ns)(uint64_t wall_ns, uint64_t cpu_ns, uint64_t own_ns);
	/*
	 * What a stall costs beside its time; NULL: nothing, and the others' CPU time is not asked
	 * for.
	 */
	uint64_t (*extra_ns)(uint64_t stalled_ns, uint64_t others_ns);
	uint64_t allowed_ns;	 /* budget at the start */
	uint32_t outwait_one_in; /* a stall is extended while others sleep; 0: never */
	uint32_t outwait_again;	 /* the same, where that was done before */
	uint32_t skips_one_in;	 /* executions of a site before the first stall */
	uint8_t is_free;	 /* of a budget */
	uint8_t is_of_sites;	 /* traps are put into all code */
	uint8_t rotates;	 /* traps are put into some code at a time, within the budget */
	uint8_t is_for_some;	 /* sites, by race_is_in_range(); there are no samples */
	uint8_t samples_births;	 /* the creation of a thread counts as a sample */
	uint8_t weighs_threads;	 /* CPU time of one thread counts by the number of CPUs in use */
	uint8_t stalls_several;	 /* threads at a site, at times */
};

/* Never NULL. */
extern const struct race_strategy *race_strategy;
/* By the settings of the region. */
void race_strategy_choose(const struct race_region *region);

#endif
