/* SPDX-License-Identifier: MIT */
/* throttle.h - the budgets of `trapline throttle` in the target. */
#ifndef AGENT_THROTTLE_H
#define AGENT_THROTTLE_H

#include "record/throttle.h"

/* 0, or -errno noted in the region too. */
int agent_throttle_start(struct throttle_region *shared);
void agent_throttle_forked(void);
/* End them, in this process and its children; why is for the command. */
void agent_throttle_let_go(const char *why);

#endif
