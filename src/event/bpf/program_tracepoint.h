/* SPDX-License-Identifier: MIT */
/* program_tracepoint.h - what a program at a tracepoint of the kernel does before it decides. */
#ifndef EVENT_BPF_PROGRAM_TRACEPOINT_H
#define EVENT_BPF_PROGRAM_TRACEPOINT_H

#include "base/ebpf.h"
#include "event/event.h"

/*
 * Ends unless it is what the event waits for, done by or to the target. From here on CONTEXT has
 * the registers with which the thread entered the kernel. FRAME_NUMBER and FRAME_SYSCALL are set.
 */
void program_tracepoint_begin(struct ebpf *p, const struct trapline_event *ev, uint32_t part);
/* After the decision: FRAME_VALUE and FRAME_OLD are the facts of the tracepoint. */
void program_tracepoint_facts(struct ebpf *p, const struct trapline_event *ev, uint32_t part);

/* Where CONTEXT has the registers, in DWARF order. */
const int16_t *program_regs_at(const struct trapline_event *ev);

#endif
