/* SPDX-License-Identifier: MIT */
/*
 * race_length.h - when is a run of a sweep ended although it does not hang?
 *
 * Each run begins from the start, so many short runs find more than a long one. A program that does
 * not end by itself is ended once each site that it reached was stalled and no new one comes. So is
 * a run that takes far longer than the program takes without stalls.
 */
#ifndef RACE_LENGTH_H
#define RACE_LENGTH_H

#include "cli/race/race_undisturbed.h"
#include "record/race_region.h"

#include <stdbool.h>
#include <stdint.h>

struct race_length {
	uint64_t time_ns;    /* in which new runs are started; UINT64_MAX: no limit */
	uint64_t natural_ns; /* how long the program takes without stalls; 0: not known */
	bool is_endless;     /* an undisturbed run did not end within its limit */
	uint64_t ended;	     /* runs that were ended for their length */
	/* the state of this run */
	uint64_t began_ns;
	uint64_t looked_ns;
	uint64_t sites; /* that it reached and that were stalled, as they were then */
	uint64_t sites_since_ns;
};

/* An undisturbed run took so long; 0: it was ended at its limit. */
void race_length_learn(struct race_length *l, uint64_t natural_ns);
void race_length_begin(struct race_length *l, uint64_t now_ns);
/* True: the run shows nothing new any more. */
bool race_length_is_over(struct race_length *l, const struct race_region *region, uint64_t now_ns);
/*
 * For how long an undisturbed run is awaited. The runs with stalls took at most longest_ns: an
 * endless program runs as long without them.
 */
uint64_t race_length_undisturbed_ns(const struct race_length *l, const struct race_undisturbed *u,
				    uint64_t longest_ns);

#endif
