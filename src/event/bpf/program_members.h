/* SPDX-License-Identifier: MIT */
/*
 * program_members.h - which processes the hits of uprobes are of, where they are several.
 *
 * Processes that were named are known by their number, and what descends from them by its task in
 * the kernel: a fork is noted in the parent, before the child runs its first instruction.
 */
#ifndef EVENT_BPF_PROGRAM_MEMBERS_H
#define EVENT_BPF_PROGRAM_MEMBERS_H

#include "base/ebpf.h"
#include "event/event.h"

/* Ends the program with a verdict of 0 unless the thread is one of a member. */
void program_end_unless_member(struct ebpf *p, const struct trapline_event *ev);

/* A program at one of the kernel's tracepoints, as enumerated in event.h. A descriptor or -errno. */
int program_members_load(const struct trapline_event *ev, int which);

#endif
