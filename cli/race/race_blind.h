/* SPDX-License-Identifier: MIT */
/* race_blind.h - processes that could not be searched, or not by traps at all sites: notes. */
#ifndef RACE_BLIND_H
#define RACE_BLIND_H

#include "record/race_region.h"
#include "report/race/race_totals.h"

void race_say_refusal(const struct race_region *region, const struct race_totals *t);
/* An exit status: CLI_NO where no process could be searched. */
int race_say_blindness(const struct race_totals *t);

#endif
