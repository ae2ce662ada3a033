/* SPDX-License-Identifier: MIT */
/*
 * agent_trace.h - `trapline break --trace`: the thread of a hit continues in a window that notes
 * its calls.
 */
#ifndef AGENT_AGENT_TRACE_H
#define AGENT_AGENT_TRACE_H

#include "record/probe_region.h"

#include <trapline/trapline.h>

/* Before the probes are open. 0 or -errno. */
int agent_trace_prepare(struct probe_region *region);
/* In a hit of it, the first alone. */
void agent_trace_hit(const struct trapline_hit *hit);
/* Another run comes: the window of this one is to end. */
void agent_trace_end(void);
/* Unmaps the windows and their memory, as window_areas_give() does. */
int agent_trace_give(void);

#endif
