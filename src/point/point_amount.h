/* SPDX-License-Identifier: MIT */
/* point_amount.h - going near a point by a counter. */
#ifndef POINT_POINT_AMOUNT_H
#define POINT_POINT_AMOUNT_H

#include "point/point_leg.h"

/*
 * To shortly before the count, by an interrupt that is asked for so early that the
 * latest one is early enough. Nothing where it is near already.
 */
int leg_near_amount(struct leg *leg, uint64_t count);
int leg_read_amount(const struct leg *leg, uint64_t *out);

#endif
