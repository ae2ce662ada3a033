/* SPDX-License-Identifier: MIT */
/* throttle_open.h - budgets whose account is shared by the processes of a command, for the agent. */
#ifndef THROTTLE_OPEN_H
#define THROTTLE_OPEN_H

#include <trapline/tools.h>

#include "record/throttle.h"

int throttle_open(struct trapline *t, const struct trapline_throttle_opts *o,
		  struct throttle_region *region, uint32_t budget, struct trapline_throttle **out);

/* In a forked child: the parent's budgets are not its own. */
void throttle_forked(void);

#endif
