/* SPDX-License-Identifier: MIT */
/*
 * race_cpu_events.h - watchpoints and a breakpoint on the CPUs, for processes that are
 * searched.
 *
 * An event in each thread costs time at each switch of that thread: 0.2 us even after it
 * was closed, because the kernel keeps its context. Opening one in 64 sleeping threads
 * takes milliseconds, because each CPU that they slept on is asked. Events of the CPUs
 * see all threads, also new ones, for one message to each CPU. A BPF program sends
 * SIGTRAP to the thread that trapped, if its process waits for that. A process that has
 * something else at the same address only loses the trap.
 */
#ifndef RACE_CPU_EVENTS_H
#define RACE_CPU_EVENTS_H

#include "race/host/race_ticks.h"
#include "record/race_region.h"

#include <sys/types.h>

struct race_cpus {
	int traps_fd;
	uint32_t count; /* of CPUs */
	int fds[RACE_CPU_EVENTS][RACE_CPUS];
};

#define RACE_CPUS_NONE         \
	{                      \
		.traps_fd = -1 \
	}

/*
 * For all processes that have the gate, which the maps state. The settings get what a process
 * needs to use the events. Call after prepare(). 0, or -errno and nothing is
 * open: no privilege, another search has them, all registers of some thread are in use,
 * too many CPUs, or some of them off.
 */
int race_cpus_open(struct race_cpus *cpus, const struct race_maps *maps,
		   struct race_settings *settings);
/*
 * The first such event of a machine takes 10 ms, in which its CPUs are waited for
 * (percpu_down_write() in kernel/events/hw_breakpoint.c). That can be done beside other things:
 * from now on, until open().
 */
void race_cpus_prepare(void);
/* From time to time: are the same CPUs running? And those left by their process are freed. */
void race_cpus_look(const struct race_cpus *cpus, struct race_region *region);
/* And another search may have them; also after prepare() alone. */
void race_cpus_close(struct race_cpus *cpus);

#endif
