/* SPDX-License-Identifier: MIT */
/* race_turn.h - code is multiplexed by a breakpoint, where no int3 is put into text. */
#ifndef RACE_TURN_H
#define RACE_TURN_H

#include <stdint.h>

#include <trapline/trapline.h>

/* A thread with a sample at ip: if the last turn is over, the breakpoint moves on. */
void race_turn_take(uint64_t ip, uint64_t now_ns);
/* What race_turn_open() gives the breakpoint (watch/race_watch_open.h). */
enum trapline_action race_on_turn(const struct trapline_hit *hit);
/* 1: it is in no thread. */
int race_turn_put_away(void);

#endif
