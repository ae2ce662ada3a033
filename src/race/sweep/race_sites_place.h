/* SPDX-License-Identifier: MIT */
/* race_sites_place.h - where the traps of a sweep are set. The caller has the lock of the traps. */
#ifndef RACE_SITES_PLACE_H
#define RACE_SITES_PLACE_H

#include <stdint.h>

#include "race/sweep/race_sites.h"

/* The traps that were set, a set for each call. A set stays, and its rows as well. */
struct race_sets {
	uint32_t count;
	struct race_spots rows[RACE_SPOT_SETS];
};
extern struct race_sets race_sets;

/* In the program, and what it calls. 1: in its libraries as well, as far as time allowed. */
int race_sites_add_first(void);
/* One more piece of a library. -ENOENT: there is none. */
int race_sites_add_piece(void);
/* In objects that were loaded since. */
void race_sites_add_new(void);
/* So many objects ever came and went: the traps of those that are closed are given up. */
void race_sites_loaded(unsigned long long loaded);
/* Sites cannot be trapped: the region gets the cause of the first process that says so. */
void race_sites_refuse(int err, const char *why);

#endif
