/* SPDX-License-Identifier: MIT */
/* probe_slots.h - probes of watchpoints and breakpoints. */
#ifndef CHECK_PROBE_SLOTS_H
#define CHECK_PROBE_SLOTS_H

#include "check/probe.h"

void probe_watchpoint_slots(struct probe_result *r);
void probe_watch_write(struct probe_result *r);
void probe_watch_read_write(struct probe_result *r);
void probe_watch_read_only(struct probe_result *r);
void probe_watch_lengths(struct probe_result *r);
void probe_watch_together(struct probe_result *r);
void probe_break_execute(struct probe_result *r);

#endif
