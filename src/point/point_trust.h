/* SPDX-License-Identifier: MIT */
/* point_trust.h - whether a counter can name points. */
#ifndef POINT_POINT_TRUST_H
#define POINT_POINT_TRUST_H

#include <stdint.h>
#include <trapline/trapline.h>

/*
 * Whether a counter can find points, and how late its interrupts come. Tried once, in a child;
 * `why` has the figures, or what is wrong.
 */
struct point_trust {
	int err;	/* 0: it can */
	uint64_t early; /* so much before the point an interrupt is asked for */
	uint64_t near;	/* distances below are not worth one */
	char why[160];
};
const struct point_trust *point_trust(enum trapline_counter counter);

#endif
