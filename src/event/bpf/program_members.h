/* SPDX-License-Identifier: MIT */
/*
 * program_members.h - which processes the hits of uprobes are of, where they are several.
 *
 * Processes that were named are known by their number, and their descendants by their task in the
 * kernel. A fork is recorded in the parent, before the child runs its first instruction.
 */
#ifndef EVENT_BPF_PROGRAM_MEMBERS_H
#define EVENT_BPF_PROGRAM_MEMBERS_H

#include "base/ebpf.h"
#include "event/event.h"

/*
 * Where in the frame the key is that the functions below use: a task, or the number of a process. 8
 * bytes.
 */
#define PROGRAM_KEY_AT -8

/* The key is what runs. */
void program_key_task(struct ebpf *p);
void program_key_process(struct ebpf *p, const struct ebpf_ids *ids);
/* R1 and R2 as for a call that takes a map and a key. */
void program_map_key(struct ebpf *p, int map_fd);

/*
 * Ends the program with a verdict of 0 unless the thread is in the first map, or its process in the
 * second.
 */
void program_end_unless_in(struct ebpf *p, int tasks_fd, int named_fd, const struct ebpf_ids *ids);
/* ... unless the thread is one of a member. */
void program_end_unless_member(struct ebpf *p, const struct trapline_event *ev);

/*
 * A program at one of the kernel's tracepoints, as enumerated in event.h. A descriptor or -errno.
 */
int program_members_load(const struct trapline_event *ev, int which);

#endif
