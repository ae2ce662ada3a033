/* SPDX-License-Identifier: MIT */
/* race_outwait.h - a stall is extended until threads in a timed sleep have woken up. */
#ifndef RACE_OUTWAIT_H
#define RACE_OUTWAIT_H

#include <stdint.h>

#include "race/stall/race_slot.h"

/*
 * When the time of a stall is over: continues it while other threads sleep, now and then. Returns
 * how long.
 */
uint64_t race_outwait(struct race_slot *slot);

#endif
