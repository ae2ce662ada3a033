/* SPDX-License-Identifier: MIT */
/* program_amount.h - counters of one thread, for programs. */
#ifndef EVENT_BPF_PROGRAM_AMOUNT_H
#define EVENT_BPF_PROGRAM_AMOUNT_H

#include "base/ebpf.h"
#include "event/event.h"

/* Needs and reads a counter of one thread; R0 is below 0 where it cannot. */
int program_amount_open(struct trapline_event *counter);
void program_amount_close(struct trapline_event *counter);
void program_read_amount(struct ebpf *p, const struct trapline_event *counter);
void program_end_unless_amount(struct ebpf *p, const struct trapline_event *ev);

#endif
