/* SPDX-License-Identifier: MIT */
/* program_decide.h - what a program does before it lets a hit pass. */
#ifndef EVENT_BPF_PROGRAM_DECIDE_H
#define EVENT_BPF_PROGRAM_DECIDE_H

#include "base/ebpf.h"
#include "event/event.h"

/* Count, duplicates, value, condition, limit. 0 or -errno. */
int program_decide(struct ebpf *p, const struct trapline_event *ev, uint32_t part, uint32_t class);

/* That no value was read, in the frame. */
void program_no_value(struct ebpf *p);

#endif
