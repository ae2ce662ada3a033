/* SPDX-License-Identifier: MIT */
/* program.h - the BPF program of an event with records: it decides and writes the record. */
#ifndef EVENT_PROGRAM_H
#define EVENT_PROGRAM_H

#include "event/event.h"

/* Maps the programs of an event use: the control page and the owner of each task. */
int program_maps_open(struct trapline_event *ev);
void program_maps_close(struct trapline_event *ev);

/* Load the program for one part and class. Returns a descriptor or -errno. */
int program_load(const struct trapline_event *ev, uint32_t part, uint32_t class, int ring_fd);

#endif
