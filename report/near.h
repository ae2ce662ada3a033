/* SPDX-License-Identifier: MIT */
/* near.h - which names did the user perhaps mean? */
#ifndef REPORT_NEAR_H
#define REPORT_NEAR_H

#include <stddef.h>

/* A name is no answer when its score reaches this. */
#define NEAR_NOT 1000u

/*
 * How far a candidate is from a mistyped name: 0 is equal but for upper and lower case; typing
 * errors count one each, and a candidate that contains the whole name is near too.
 */
unsigned int near_score(const char *wanted, const char *candidate);

#endif
