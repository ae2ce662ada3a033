/* SPDX-License-Identifier: MIT */
/*
 * race_ticks.h - ticks for the threads of processes that are searched, from outside.
 *
 * A task clock of its own in each thread is a timer that is set and cancelled at each switch of the
 * thread: up to 5 us where a hypervisor takes part. So the clocks are those of the CPUs, and a BPF
 * program sends SIGTRAP to the thread that is running user code of the process just then. It never
 * interrupts a system call: the signal is taken before the thread goes on.
 */
#ifndef CLI_RACE_TICKS_H
#define CLI_RACE_TICKS_H

#include "record/race.h"

#include <sys/types.h>

struct race_ticks {
	int map_fd;
	int task_fd; /* an event of our own thread */
	int *fds; /* one for each CPU that is there */
	int count;
	uint64_t period_ns;
	uint64_t price_ns; /* what one takes from its CPU: measured */
};

/*
 * All but the start, which takes some 15 ms. pid: the one process, or 0: all in which a gate is. 0, or
 * -errno: it cannot be had (no privilege, a pid namespace of our own, an old kernel), and *ticks is as
 * race_ticks_close() wants it.
 */
int race_ticks_open(pid_t pid, struct race_ticks *ticks);
/* From now on, as the gate in the process allows. 0 or -errno. */
int race_ticks_start(struct race_ticks *ticks, uint64_t gate_at, uint64_t magic);
/* The first, or another, period. Does nothing where there are no ticks. */
void race_ticks_pace(struct race_ticks *ticks, uint64_t period_ns);
void race_ticks_close(struct race_ticks *ticks);

#endif
