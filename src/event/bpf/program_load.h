/* SPDX-License-Identifier: MIT */
/*
 * program_load.h - the BPF program of an event: it counts, decides, and writes the record or lets
 * the signal pass.
 */
#ifndef EVENT_BPF_PROGRAM_LOAD_H
#define EVENT_BPF_PROGRAM_LOAD_H

#include <linux/bpf_perf_event.h>

#include "base/ebpf.h"
#include "event/event.h"

/* Maps the programs of an event use: the control page and the note kept with each task. */
int program_maps_open(struct trapline_event *ev);
void program_maps_close(struct trapline_event *ev);

/* ring_fd of a program that writes no records. */
#define PROGRAM_SIGNALS (-1)

/*
 * Load the program for one part and class. With a ring it writes records and always suppresses the
 * signal; with PROGRAM_SIGNALS its verdict is whether the thread gets one. log may be NULL. Returns
 * a descriptor or -errno.
 */
int program_load(const struct trapline_event *ev, uint32_t part, uint32_t class, int ring_fd,
		 char *log, uint32_t log_size);

/* The instructions of such a program. -EOPNOTSUPP: the condition cannot be compiled for it. */
int program_emit(struct ebpf *p, const struct trapline_event *ev, uint32_t part, uint32_t class,
		 int ring_fd);

/* The hit is the end of a call that was one. */
int program_is_return(const struct trapline_event *ev, uint32_t part);

/* The process is stopped, or the thread gets the signal of the event. */
void program_stop(struct ebpf *p, const struct trapline_event *ev);

/* Where the context has the address: a uprobe's context is registers alone. */
int16_t program_addr_at(const struct trapline_event *ev);
#define PROGRAM_DATA_ADDR_AT ((int16_t)offsetof(struct bpf_perf_event_data, addr))

/*
 * Shared code, which other processes run too: ends in these, and counts what passes while the event
 * is off. Not at the return of a call that was seen.
 */
void program_end_unless_ours(struct ebpf *p, const struct trapline_event *ev, int is_return);
void program_end_if_off(struct ebpf *p, const struct trapline_event *ev);

void program_count(struct ebpf *p, int16_t counter);
/* Counts, and ends the program with a verdict of 0. */
void program_reject(struct ebpf *p, int16_t counter);

#endif
