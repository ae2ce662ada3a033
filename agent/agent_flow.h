/* SPDX-License-Identifier: MIT */
/* agent_flow.h - `trapline flow` in the target. */
#ifndef AGENT_AGENT_FLOW_H
#define AGENT_AGENT_FLOW_H

#include "record/flow_region.h"

/*
 * lock is a descriptor of the region's file. As soon as the command does not hold the lock any more, a
 * thread of the agent tells what lies in memory, and restores the instructions. Region and descriptor are
 * the agent's from here on.
 *
 * In a process that runs: that thread begins when the region's state is RUN_ARM. 0 or -errno.
 */
int agent_flow_attach(struct flow_region *shared, int lock);

/* In a process that was just started: waits for RUN_ARM. 1: it handles SIGTRAP from now on. */
int agent_flow_start(struct flow_region *shared, int lock);

/*
 * The program takes a signal by itself that it has blocked: 0: there is no flow here; -EINPROGRESS: it ends, and
 * then signals_tool_has_ended() follows. AS-Safe.
 */
int agent_flow_let_go(void);

#endif
