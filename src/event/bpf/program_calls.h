/* SPDX-License-Identifier: MIT */
/* program_calls.h - calls whose returns are hits. */
#ifndef EVENT_BPF_PROGRAM_CALLS_H
#define EVENT_BPF_PROGRAM_CALLS_H

#include "base/ebpf.h"
#include "event/event.h"

/*
 * A call that passed is recorded, and its return looked for and taken out. One that is
 * called again in the same location has not returned: it is forgotten.
 */
void program_forget_call(struct ebpf *p, const struct trapline_event *ev);
void program_note_call(struct ebpf *p, const struct trapline_event *ev);
void program_end_unless_call_passed(struct ebpf *p, const struct trapline_event *ev);
int program_calls_open(void);

#endif
