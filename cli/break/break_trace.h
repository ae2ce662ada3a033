/* SPDX-License-Identifier: MIT */
/* break_trace.h - `trapline break --trace`: the tree of calls below one call. */
#ifndef CLI_BREAK_BREAK_TRACE_H
#define CLI_BREAK_BREAK_TRACE_H

#include "cli/break/break_probe.h"

/* What goes with --trace. It then means probes. 0 or an exit status, line printed. */
int break_trace_check(struct observe_settings *set);
/* Before the process gets the sites. 0 or an exit status, line printed. */
int break_trace_fill(struct probe_region *region, const struct observe *o,
		     const struct code_sites *sites);
/* The call has returned, or its window has ended. */
bool break_trace_is_done(const struct probe_region *region);
/* When the probes are gone. */
void break_trace_print(const struct probe_region *region, struct observe *o);

#endif
