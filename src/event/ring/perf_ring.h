/* SPDX-License-Identifier: MIT */
/*
 * perf_ring.h - records written by the kernel itself, where BPF is not permitted.
 *
 * One ring for each CPU, kept by a dummy event of Trapline, so that it outlives every thread of the
 * target; the events send their samples there.
 */
#ifndef EVENT_RING_PERF_RING_H
#define EVENT_RING_PERF_RING_H

#include <stddef.h>
#include <stdint.h>

#include "event/event.h"
#include "event/ring/cpu_ring.h"
#include "event/ring/ring_names.h"
#include "record/layout.h"

struct perf_rings {
	struct cpu_ring *rings;
	int count; /* one per possible CPU; 0: not open */
	size_t bytes;
	struct event_id *ids; /* sample id -> event, part, class */
	size_t id_count;
	size_t id_capacity;
	uint8_t *sample; /* the one returned last, unwrapped */
	struct ring_names names;
};

/* Sample id of one descriptor. */
struct event_id {
	uint64_t id;
	struct trapline_event *event;
	uint32_t generation; /* the first one of the event: it may have been closed */
	uint32_t part;
	uint32_t class;
};

int perf_rings_open(struct perf_rings *r, size_t bytes_per_cpu);
void perf_rings_close(struct perf_rings *r);

/* Let an event's descriptor write to the ring of its CPU. */
int perf_rings_add(struct perf_rings *r, struct trapline_event *ev, int fd, uint32_t part,
		   uint32_t class, int cpu);

/* Members of attr that samples need. The reader is woken by a quarter of a ring: look oftener. */
void perf_rings_attr(const struct perf_rings *r, struct trapline_event *ev);

/*
 * The oldest sample over all CPUs, copied to *out; *stack is valid until the next call. 1: got one,
 * 0: none. Losses are counted on the way, duplicates rejected. The event was entered: the caller
 * leaves it.
 */
int perf_rings_next(struct perf_rings *r, struct trapline_event **event_out, uint32_t *part,
		    struct record *out, const void **stack);

/* Ordinal of this hit in its thread, for events whose condition asks; 0: not known. */
uint64_t perf_rings_hit_in_thread(struct trapline_event *ev, uint32_t tid);

/* 1 when no record is left in any ring. */
int perf_rings_empty(const struct perf_rings *r);

#endif
