/* SPDX-License-Identifier: MIT */
/*
 * probe_busy.h - whether other work kept a probe from a CPU.
 *
 * A probe that fails on a busy machine states nothing about the kernel: its signals came late and
 * merged, or the process that it waited for had no turn.
 */
#ifndef CHECK_PROBE_BUSY_H
#define CHECK_PROBE_BUSY_H

#include <stdint.h>

struct probe_busy {
	uint64_t begun_ns;
	uint64_t waited_us; /* threads of this machine for a CPU; 0: the kernel does not count it */
	uint64_t stolen;    /* time that the hypervisor gave to other machines, in clock ticks */
};

void probe_busy_begin(struct probe_busy *b);
/* 1: threads waited for a CPU since then, or the hypervisor took one away. */
int probe_was_busy(const struct probe_busy *b);

#endif
