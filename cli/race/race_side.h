/* SPDX-License-Identifier: MIT */
/* race_side.h - whether a search is inside the process or from outside. */
#ifndef CLI_RACE_SIDE_H
#define CLI_RACE_SIDE_H

#include "cli/race/race_settings.h"

/* A search from outside would do, and is permitted. */
bool race_side_may_be_outside(const struct race_cli_settings *set);

/*
 * Sets set->outside, with a note, where the detector cannot enter the process and root may search
 * without it. Not where a side was asked for.
 */
void race_side_choose(struct race_cli_settings *set);

#endif
