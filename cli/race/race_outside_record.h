/* SPDX-License-Identifier: MIT */
/* race_outside_record.h - a pair that was caught from outside becomes a record. */
#ifndef CLI_RACE_RACE_OUTSIDE_RECORD_H
#define CLI_RACE_RACE_OUTSIDE_RECORD_H

#include "cli/race/race_outside.h"

struct outside_caught;

void race_outside_record(struct race_outside *x, const struct outside_caught *c);

#endif
