/* SPDX-License-Identifier: MIT */
/* flow.h - the search for flows, as the agent begins and ends it. flow_state.h has its parts. */
#ifndef FLOW_FLOW_H
#define FLOW_FLOW_H

#include <stddef.h>

#include "record/flow_region.h"

/* With the settings complete. may_trap: as in flow_jumps.h. */
int flow_start(struct flow_region *region, int may_trap, char *why, size_t n);
/* The end: what is there is reported. */
void flow_end(void);
/* Nothing of the bytes stays in the process because of Trapline. */
void flow_wipe(void);
/*
 * Unmaps all but the region, when no thread is in Trapline's code any more and none can come.
 * -EBUSY: a window waits in a system call, and all stays.
 */
int flow_give(void);

#endif
