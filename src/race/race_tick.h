/* SPDX-License-Identifier: MIT */
/* race_tick.h - a sample in a thread: is it time to stall it, and before which access? */
#ifndef RACE_TICK_H
#define RACE_TICK_H

#include <trapline/trapline.h>

enum trapline_action race_on_timer(const struct trapline_hit *hit);

#endif
