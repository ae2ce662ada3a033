/* SPDX-License-Identifier: MIT */
/* probe_code.h - probes of changing code. */
#ifndef CHECK_PROBE_CODE_H
#define CHECK_PROBE_CODE_H

#include "check/probe.h"

void probe_membarrier_sync_core(struct probe_result *r);
void probe_patch_text(struct probe_result *r);
void probe_text_by_mem(struct probe_result *r);
void probe_text_by_tracee(struct probe_result *r);
void probe_text_by_mprotect(struct probe_result *r);
double probe_cost_int3(void);
double probe_cost_membarrier(void);
double probe_cost_poke(void);

#endif
