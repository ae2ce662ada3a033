/* SPDX-License-Identifier: MIT */
/* race_sites_find.h - the memory accesses of a module that a sweep stalls. Not in a handler. */
#ifndef RACE_SITES_FIND_H
#define RACE_SITES_FIND_H

#include <stdint.h>

#include "race/race_modules.h"
#include "race/sweep/race_calls.h"
#include "race/sweep/race_sites.h"

/* In a module: what was gone through. */
struct race_listing {
	const struct race_module *module;
	struct race_calls calls; /* race_calls_find() */
	uint32_t functions;	 /* race_count_functions() */
	uint8_t *done;		 /* a bit each: they are listed once */
	uint8_t *outer;	   /* a bit for each byte of text: functions jump there from elsewhere */
	uint64_t bytes;	   /* of those two, from done on */
	uint64_t unproven; /* accesses, perhaps, in what is not known to be code */
};

/*
 * The accesses that a sweep goes for, in the module's functions from number *function on. Returns
 * how many are in out. With most, *function states where to continue when so many have been found;
 * else all are inspected, and which are taken is by chance if there are more than max.
 */
uint32_t race_find_spots(struct race_listing *listing, uint32_t *function, uint32_t most,
			 struct race_spot *out, uint32_t max);
/*
 * The same of the functions at some addresses, and of those that they call, until there are most.
 */
uint32_t race_find_spots_called(struct race_listing *listing, const uint64_t *addresses, uint32_t n,
				uint32_t most, struct race_spot *out, uint32_t max);
/* 0, or -errno: to be dropped. */
int race_listing_begin(struct race_listing *l, const struct race_module *module,
		       uint32_t functions);
void race_listing_drop(struct race_listing *l);
/* How many functions the module has. */
uint32_t race_count_functions(const struct race_module *module);

#endif
