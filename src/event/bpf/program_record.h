/* SPDX-License-Identifier: MIT */
/* program_record.h - writing the record of a hit. */
#ifndef EVENT_BPF_PROGRAM_RECORD_H
#define EVENT_BPF_PROGRAM_RECORD_H

#include "base/ebpf.h"
#include "event/event.h"

/* Reserve, fill and submit a record. */
void program_record(struct ebpf *p, const struct trapline_event *ev, uint32_t part, int ring_fd);

#endif
