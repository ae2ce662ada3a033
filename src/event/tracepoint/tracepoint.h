/* SPDX-License-Identifier: MIT */
/*
 * tracepoint.h - events of the kernel: system calls, signals, forks, ends.
 *
 * A BPF program is at a raw tracepoint, which the kernel takes away with its descriptor. The
 * program is run for every process, and ends at once for others.
 */
#ifndef EVENT_TRACEPOINT_TRACEPOINT_H
#define EVENT_TRACEPOINT_TRACEPOINT_H

#include "event/event.h"

/* The part of a hit, and so where its program is. The first two are as in uprobe.h. */
enum {
	TRACEPOINT_ENTRY,
	TRACEPOINT_RETURN,
	TRACEPOINT_CREATED, /* the end of a system call whose result is the descriptor */
	TRACEPOINT_PROGRAMS
};
_Static_assert(TRACEPOINT_PROGRAMS <= EVENT_TRACEPOINTS, "room for the links");

#define TRACEPOINT_NUMBERS 1024u /* of system calls; 0x1000 and more are of other interfaces */

/* The table of numbers that a program compares with: a word for each. */
struct tracepoint_table {
	uint16_t wanted[TRACEPOINT_NUMBERS];
};

/* 0 or -errno, and *why is a reason then. EINVAL: a number. */
int tracepoint_describe(struct trapline_event *ev, uint32_t what, const uint32_t *numbers,
			size_t count, const char **why);
int tracepoints_open(struct trapline_event *ev, int ring_fd, const char **why);
void tracepoints_close(struct trapline_event *ev);

/* The kernel runs no program, as before it was opened, and runs them again. 0 or -errno. */
void tracepoints_rest(struct trapline_event *ev);
int tracepoints_attach_again(struct trapline_event *ev);

#endif
