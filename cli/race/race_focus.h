/* SPDX-License-Identifier: MIT */
/* race_focus.h - which sites is the next run of a sweep for? */
#ifndef CLI_RACE_RACE_FOCUS_H
#define CLI_RACE_RACE_FOCUS_H

#include "record/race_region.h"

#include <stdbool.h>
#include <stddef.h>

struct race_focus {
	bool is_on; /* for some only */
	uint64_t runs;
	uint64_t others;     /* runs, for all */
	uint64_t focused_ns; /* spent in such runs */
	uint64_t other_ns;
};
/* By chance, 0 to below - 1. */
uint64_t race_draw(uint64_t below);
void race_focus_choose(struct race_focus *focus, struct race_region *region);
/* The next run is for these alone, at most RACE_FOCUS. */
void race_focus_on(struct race_focus *focus, struct race_region *region, const uint64_t *places,
		   size_t count);
/* A run took so long. */
void race_focus_ran(struct race_focus *focus, uint64_t took_ns);

#endif
