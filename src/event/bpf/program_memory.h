/* SPDX-License-Identifier: MIT */
/* program_memory.h - memory that the program of an event copies at a hit. */
#ifndef EVENT_BPF_PROGRAM_MEMORY_H
#define EVENT_BPF_PROGRAM_MEMORY_H

#include "base/ebpf.h"
#include "event/event.h"

/* Takes a copy of what is wanted, as far as a record has room for it. 0, -EINVAL or -ENOMEM. */
int program_memory_take(struct trapline_event *ev, const struct trapline_memory *memory,
			size_t count);
void program_memory_close(struct trapline_event *ev);

/* at: where the room for it begins in the record. */
void program_memory(struct ebpf *p, const struct trapline_event *ev, uint32_t at, int has_returned);

#endif
