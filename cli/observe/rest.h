/* SPDX-License-Identifier: MIT */
/*
 * rest.h - keeps what hits cost the target below a share of a CPU, by resting in turns.
 *
 * All hits cost: also those that a condition rejects, and those of breakpoints that stay in the
 * code during a pause. The cost is their number and the cost of one, which is measured on this
 * machine.
 */
#ifndef CLI_OBSERVE_REST_H
#define CLI_OBSERVE_REST_H

#include <stdbool.h>
#include <stdint.h>

struct rest {
	double share; /* of one CPU; 0: no limit */
	/* The CPU time in ns that all hits have cost so far. */
	double (*spent_ns)(void *arg);
	void *arg;
	double seen_ns;	    /* spent_ns at the last look */
	double grant_ns;    /* that hits may cost before they are charged */
	double granted_ns;  /* that was used of it */
	double debt_ns;	    /* beyond the share; negative: left */
	double cost_share;  /* of one CPU, between the last two looks */
	uint64_t window_ns; /* about the length of a turn with its rest */
	uint64_t looked_ns;
	uint64_t next_ns;  /* of the next look */
	uint64_t since_ns; /* 0: not at rest */
	uint64_t rested_ns;
	uint64_t rests;
};

void rest_start(struct rest *r, double share, double (*spent_ns)(void *arg), void *arg);
/* Whether the events are to rest. */
bool rest_look(struct rest *r, uint64_t now);
/* The events were switched, which took this long: turns become longer than switching. */
void rest_switched(struct rest *r, bool rests, uint64_t started, uint64_t ended);
/* spent_ns knows better now what a hit costs. */
void rest_cost_is_known(struct rest *r);
void rest_end(struct rest *r, uint64_t now);

#endif
