/* SPDX-License-Identifier: MIT */
/*
 * throttle_open.h - budgets whose account is shared by the processes of a command, for the agent.
 */
#ifndef THROTTLE_OPEN_H
#define THROTTLE_OPEN_H

#include <trapline/tools.h>

#include "record/throttle_region.h"

int throttle_open(struct trapline *t, const struct trapline_throttle_opts *o,
		  struct throttle_region *region, uint32_t budget, struct trapline_throttle **out);

/* trapline_throttle_end(). -EBUSY: a thread may still be in a check, and read the region. */
int throttle_end(struct trapline_throttle *th);
/* This thread sleeps in no check until the next call, for it does what cannot wait. */
void throttle_spare(int is_spared);
/* No check any more, until it ends. In a handler too. */
void throttle_rest(struct trapline_throttle *t);

/* In a forked child: the parent's budgets are not its own. */
void throttle_forked(void);

#endif
