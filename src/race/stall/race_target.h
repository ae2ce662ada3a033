/* SPDX-License-Identifier: MIT */
/* race_target.h - what a stalled thread is about to access, and which part of it is watched. */
#ifndef RACE_TARGET_H
#define RACE_TARGET_H

#include <trapline/trapline.h>

#include "race/stall/race_slot.h"

struct race_code;
struct race_spot;

/*
 * The access that the instruction at hit->ip is about to make; code is that of hit->ip. A frame of
 * its own, which is gone during the stall. 0; -ENOENT: it makes no access to stall for; -EFAULT: it
 * is the thread's own stack or a constant, which is counted.
 */
int race_target_choose(const struct trapline_hit *hit, const struct race_code *code,
		       const struct race_spot *spot, struct race_target *target);

/*
 * Which bytes of the access are watched: a naturally aligned piece, by chance when it has several.
 */
void race_choose_part(struct race_target *target);

#endif
