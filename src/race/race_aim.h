/* SPDX-License-Identifier: MIT */
/* race_aim.h - the breakpoint at the access that was chosen. */
#ifndef RACE_AIM_H
#define RACE_AIM_H

#include <stdint.h>
#include <sys/types.h>

#include <trapline/trapline.h>

int race_aim_at(pid_t tid, uint64_t pc);
/* 1: none is open, nor about to be. */
int race_aims_put_away(void);
/* Set one in the thread that the caller is about to create. */
int race_aim_at_birth(uint64_t pc);
enum trapline_action race_on_aim(const struct trapline_hit *hit);
/* Breakpoints that were not reached in time are taken away. */
void race_aims_drop_missed(uint64_t now);

#endif
