/* SPDX-License-Identifier: MIT */
/* race_ranges.h - the few sites that a replay asks for, instead of all sites. Not in a handler. */
#ifndef RACE_RANGES_H
#define RACE_RANGES_H

#include <stdint.h>

struct race_module;

/* Is some of it one of the locations that this run is for? */
int race_is_in_range(const struct race_module *module, uint64_t start, uint64_t end);

#endif
