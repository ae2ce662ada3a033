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

#include "base/ebpf.h"
#include "record/race.h"

#include <stdbool.h>
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
 * All but the start, which takes some 15 ms. For all processes in which the gate is. 0, or -errno: it cannot be had (no privilege, a pid namespace of our own, an old kernel), and *ticks is as
 * race_ticks_close() wants it.
 */
int race_ticks_open(struct race_ticks *ticks);
/* From now on, as the gate in the process allows. 0 or -errno. */
int race_ticks_start(struct race_ticks *ticks, uint64_t gate_at, uint64_t magic);
/* The first, or another, period. Does nothing where there are no ticks. */
void race_ticks_pace(struct race_ticks *ticks, uint64_t period_ns);
/* It can see us, and its numbers are those that a program in the kernel is told. */
bool race_is_in_first_namespace(pid_t pid);
/* The processes open no events of their threads. */
void race_ticks_forget_tasks(struct race_ticks *ticks);
void race_ticks_close(struct race_ticks *ticks);

/*
 * What a program of these does first: it ends but in a process whose gate says that we search there.
 * Then R6 is its context, R8 0, R9 the process, and a copy of the gate is on the stack.
 */
#define RACE_GATE_COPY (-(int)sizeof(struct race_gate))
void race_emit_gate(struct ebpf *p, int map_fd);
/* The descriptor of an event that has the program from now on; or -errno, and it is closed. */
int race_give_program(int fd, int program);
/* It ends when so. op: BPF_JEQ, BPF_JNE ... */
void race_emit_end_if(struct ebpf *p, int op, int dst, int src);

#endif
