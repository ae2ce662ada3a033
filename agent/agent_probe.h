/* SPDX-License-Identifier: MIT */
/* agent_probe.h - the probes of `trapline break --mechanism probe` in the target. */
#ifndef AGENT_AGENT_PROBE_H
#define AGENT_AGENT_PROBE_H

#include "record/probe_region.h"

/*
 * lock is a descriptor of the region's file. As soon as the command does not hold the lock any more, a
 * thread of the agent restores the instructions. Region and descriptor are the agent's from here on.
 *
 * In a process that runs: that thread arms when the region's state is RUN_ARM. 0 or -errno.
 */
int agent_probe_attach(struct probe_region *shared, int lock);

/*
 * In a process that was just started: waits for RUN_ARM, and arms, or for RUN_DECLINED. The process
 * ends if the command does.
 */
void agent_probe_start(struct probe_region *shared, int lock);

#endif
