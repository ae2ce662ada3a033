/* SPDX-License-Identifier: MIT */
/*
 * race_ticks.h - samples in the threads of searched processes, from outside.
 *
 * A task clock in each thread is a timer that is set and cancelled at each switch of the
 * thread, which costs up to 5 us below a hypervisor. So the clocks are those of the CPUs,
 * and a BPF program sends SIGTRAP to the thread that runs user code of the process at
 * that moment. It never interrupts a system call: the thread takes the signal before it
 * continues.
 */
#ifndef RACE_TICKS_H
#define RACE_TICKS_H

#include "base/ebpf.h"
#include "base/table_size.h"
#include "record/race_region.h"

#include <stdbool.h>
#include <sys/types.h>

/* Processes of a run that the programs in the kernel can know. */
#define RACE_MEMBERS TABLE_SIZE(4096u, 1u)

/* What the programs in the kernel look up; descriptors of maps, -1: none. */
struct race_maps {
	int place_fd;	/* whom the gate is looked for in */
	int members_fd; /* processes of the run, by number: RACE_MEMBERS at most */
	/* The offset in task_struct; -1: unknown, or it may not be read. */
	int ptrace_at;
	int blocked_at;
};

#define RACE_MAPS_NONE                                                              \
	{                                                                           \
		.place_fd = -1, .members_fd = -1, .ptrace_at = -1, .blocked_at = -1 \
	}

struct race_ticks {
	struct race_maps maps;
	int task_fd; /* an event of the thread that opened them */
	int *fds;    /* one for each CPU that is there */
	int count;
	uint64_t period_ns;
	uint64_t price_ns; /* what one takes from its CPU: measured */
};

#define RACE_TICKS_NONE                               \
	{                                             \
		.maps = RACE_MAPS_NONE, .task_fd = -1 \
	}

/*
 * Everything except the start, which takes some 15 ms. For all processes that have the gate. 0, or
 * -errno: not possible (no privilege, a pid namespace, an old kernel). `*ticks` can be passed to
 * race_ticks_close() then, too.
 */
int race_ticks_open(struct race_ticks *ticks);
/*
 * From now on, as the gate in the process allows. user: whose processes get samples at once; those
 * of others get them when they are known as members. 0 or -errno.
 */
int race_ticks_start(struct race_ticks *ticks, uint64_t magic, uid_t user);
/* Sets the period. Does nothing if there are no clocks. */
void race_ticks_pace(struct race_ticks *ticks, uint64_t period_ns);
/* The process can see trapline, and has the ids that a BPF program gets. */
bool race_is_in_first_namespace(pid_t pid);
/* A process has this number, which may be any number. */
bool race_is_process(pid_t pid);
/* The processes open no events of their threads. */
void race_ticks_forget_tasks(struct race_ticks *ticks);
void race_ticks_close(struct race_ticks *ticks);

/*
 * The start of each BPF program: it ends unless the process is one that may get a signal from
 * trapline, and its gate states that a search runs there. Any process may have such bytes at that
 * address. So it must be a process of the user that is searched, to which that user could send the
 * signal as well. Or it is known to be of the run. No debugger has the thread: gdb takes a SIGTRAP
 * of the kernel for its own breakpoint and moves the pc back by a byte. The thread does not block
 * SIGTRAP. Then R6 is its context, R8 is 0, R9 the process, and a copy of the gate is on the stack.
 */
#define RACE_GATE_COPY (-(int)sizeof(struct race_gate))
void race_emit_gate(struct ebpf *p, const struct race_maps *maps);
/* The descriptor of an event that has the program from now on; or -errno, and it is closed. */
int race_give_program(int fd, int program);
/* It ends when so. op: BPF_JEQ, BPF_JNE ... */
void race_emit_end_if(struct ebpf *p, int op, int dst, int src);

#endif
