/* SPDX-License-Identifier: MIT */
/* race_sites_place.h - where the traps of a sweep are set. The caller has the lock of the traps. */
#ifndef RACE_SITES_PLACE_H
#define RACE_SITES_PLACE_H

#include <stdint.h>

#include "race/sweep/race_sites.h"

/* The traps that were set, a set for each call. A set stays, and its rows as well. */
struct race_sets {
	uint32_t count;
	struct race_spots rows[RACE_SPOT_SETS]; /* rows NULL: free */
};
extern struct race_sets race_sets;

/* race_sites_keep.c: the traps of a set are taken away, and it has no turn any more. */
void race_sites_forget_set(uint32_t number);

/* In the program, and what it calls. 1: in its libraries as well, as far as time allowed. */
int race_sites_add_first(void);
/* One more piece of a library. -ENOENT: there is none. */
int race_sites_add_piece(void);
/* In objects that were loaded since. */
void race_sites_add_new(void);
/* So many objects ever came and went: the traps of those that are closed are given up. */
void race_sites_loaded(unsigned long long loaded);
/*
 * Where sites are multiplexed: at the start, a piece of the program if it is small; then a piece
 * more. -ENOENT: all had their turn, or no room is left.
 */
void race_sites_rotate_first(void);
int race_sites_rotate(void);
/* Sites cannot be trapped: the region gets the cause of the first process that reports it. */
void race_sites_refuse(int err, const char *why);

#endif
