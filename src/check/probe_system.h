/* SPDX-License-Identifier: MIT */
/* probe_system.h - probes of the kernel and this process. */
#ifndef CHECK_PROBE_SYSTEM_H
#define CHECK_PROBE_SYSTEM_H

#include "check/probe.h"

void probe_preempt_rt_safe(struct probe_result *r);
void probe_seccomp(struct probe_result *r);
void probe_capabilities(struct probe_result *r);

#endif
