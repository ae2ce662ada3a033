/* SPDX-License-Identifier: MIT */
/* race_regs.h - the names of two registers in what a BPF program gets. */
#ifndef RACE_REGS_H
#define RACE_REGS_H

#include <linux/bpf_perf_event.h>

#ifdef __x86_64__
#define BPF_SP offsetof(struct bpf_perf_event_data, regs.rsp)
#define BPF_PC offsetof(struct bpf_perf_event_data, regs.rip)
#else
#define BPF_SP offsetof(struct bpf_perf_event_data, regs.sp)
#define BPF_PC offsetof(struct bpf_perf_event_data, regs.pc)
#endif

#endif
