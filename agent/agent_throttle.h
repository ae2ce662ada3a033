/* SPDX-License-Identifier: MIT */
/* agent_throttle.h - the budgets of `trapline throttle` in the target. */
#ifndef AGENT_THROTTLE_H
#define AGENT_THROTTLE_H

#include "record/throttle_region.h"

/* 0, or -errno, which the region gets too. */
int agent_throttle_start(struct throttle_region *shared);
void agent_throttle_forked(void);
/* Ends them, in this process and its children; trapline prints why. */
void agent_throttle_let_go(const char *why);
/* The same in SIGTRAP: no event of theirs comes any more. */
void agent_throttle_rest(const char *why);

/* Closes all that a throttle has in this process. */
int agent_throttle_end(void);
/* Opens the events again that the program has closed with other descriptors. 0 or -errno. */
int agent_throttle_again(void);

#endif
