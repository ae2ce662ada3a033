/* SPDX-License-Identifier: MIT */
/* probe_counter.h - probes of counters. */
#ifndef CHECK_PROBE_COUNTER_H
#define CHECK_PROBE_COUNTER_H

#include "check/probe.h"

void probe_counter_task_clock(struct probe_result *r);
void probe_counter_page_faults(struct probe_result *r);
void probe_pmu_instructions(struct probe_result *r);
void probe_pmu_cycles(struct probe_result *r);
void probe_pmu_branches(struct probe_result *r);
void probe_overflow_signals(struct probe_result *r);
void probe_pmu_overflow(struct probe_result *r);

#endif
