/* SPDX-License-Identifier: MIT */
/*
 * race_ranges.c - the few sites that a replay asks for, instead of all sites. Not in a
 * handler.
 */
#include "race/sweep/race_ranges.h"

#include <string.h>

#include "race/race_modules.h"
#include "race/race_state.h"
#include "race/race_strategy.h"
#include "record/race_region.h"

static int is_file(const struct race_module *module, const char *name)
{
	char path[sizeof(race.region->files[0].path)];

	/* Another process can have written over its end. */
	memcpy(path, race.region->files[module->file].path, sizeof(path));
	path[sizeof(path) - 1] = '\0';
	return module->file && !strcmp(basename(path), name);
}

static int is_in_focus(const struct race_module *module, uint64_t start, uint64_t end)
{
	const struct race_region *region = race.region;

	for (uint64_t i = 0; i < region->focus_count && i < RACE_FOCUS; i++) {
		uint64_t place = region->focus[i];
		uint64_t at = module->bias + (place & RACE_PLACE_MASK);

		if (module->file && place >> RACE_PLACE_BITS == module->file && at >= start &&
		    at < end)
			return 1;
	}
	return 0;
}

int race_is_in_range(const struct race_module *module, uint64_t start, uint64_t end)
{
	const struct race_settings *set = &race.region->settings;

	if (!race_strategy->is_for_some || is_in_focus(module, start, end))
		return 1;
	for (uint64_t i = 0; i < set->range_count && i < RACE_RANGES; i++) {
		const struct race_range *range = &set->ranges[i];

		if (start - module->bias < range->end && end - module->bias > range->start &&
		    is_file(module, range->file))
			return 1;
	}
	return 0;
}
