/* SPDX-License-Identifier: MIT */
/* probe_bpf.h - probes of BPF programs and maps. */
#ifndef CHECK_PROBE_BPF_H
#define CHECK_PROBE_BPF_H

#include "check/probe.h"

void probe_bpf_condition(struct probe_result *r);
void probe_bpf_veto(struct probe_result *r);
void probe_bpf_task_storage(struct probe_result *r);
void probe_bpf_ringbuf(struct probe_result *r);
double probe_cost_bpf_reject(void);
double probe_cost_bpf_record(void);

#endif
