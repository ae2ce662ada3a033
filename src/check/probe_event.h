/* SPDX-License-Identifier: MIT */
/* probe_event.h - probes of events, signals and threads. */
#ifndef CHECK_PROBE_EVENT_H
#define CHECK_PROBE_EVENT_H

#include "check/probe.h"

void probe_perf_event_open(struct probe_result *r);
void probe_sigtrap(struct probe_result *r);
void probe_sigtrap_blocked(struct probe_result *r);
void probe_inherit_thread(struct probe_result *r);
void probe_move(struct probe_result *r);
void probe_signal_generation(struct probe_result *r);
void probe_access_in_syscalls(struct probe_result *r);
void probe_cpu_wide(struct probe_result *r);

#endif
