/* SPDX-License-Identifier: MIT */
/* probe_uprobe.h - probes of uprobes. */
#ifndef CHECK_PROBE_UPROBE_H
#define CHECK_PROBE_UPROBE_H

#include "check/probe.h"

void probe_uprobe(struct probe_result *r);
void probe_uprobe_multi(struct probe_result *r);
void probe_uprobe_nops(struct probe_result *r);
double probe_cost_uprobe(void);
double probe_cost_uprobe_bpf(void);

#endif
