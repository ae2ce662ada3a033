/* SPDX-License-Identifier: MIT */
/* probe_process.h - probes of exec, and other processes. */
#ifndef CHECK_PROBE_PROCESS_H
#define CHECK_PROBE_PROCESS_H

#include "check/probe.h"

void probe_remove_on_exec(struct probe_result *r);
void probe_other_process(struct probe_result *r);
void probe_other_process_signal(struct probe_result *r);

#endif
