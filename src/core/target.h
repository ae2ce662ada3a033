/* SPDX-License-Identifier: MIT */
/* target.h - a target: a process, and the ring its records come through. */
#ifndef CORE_TARGET_H
#define CORE_TARGET_H

#include <pthread.h>

#include "event/event.h"
#include "event/ids.h"
#include "event/ring/perf_ring.h"
#include "event/ring/ringbuf.h"
#include "record/hit_ring.h"

/* Room for one in the ring of probes; with its turn it is a power of two. */
#define CODE_RECORD_BYTES 504u

struct trapline {
	pid_t pid;
	pid_t owner_pid;
	struct ids ids;
	uint32_t flags;
	uint32_t records_bytes;
	pthread_mutex_t lock; /* opening events and rings; never taken in a handler */
	/*
	 * The rings, and what the reader and the opener of an event both touch. It is not taken in
	 * the caller's function, nor by what closes an event.
	 */
	pthread_mutex_t ring_lock;
	int epoll_fd;
	int pid_fd;
	int timer_fd;	    /* wakes the reader of perf rings */
	int gone;	    /* the process has ended */
	uint64_t looked_ns; /* for changes that no hit reported */
	struct ringbuf ring;
	struct perf_rings perf;
	struct hit_ring code_ring; /* of probes without a callback: threads of this process write */
	struct hit_reader code_reader;
	int code_ring_stays; /* a thread has not come out of it */
};

/* What an epoll event of a target is about. */
enum {
	WAKE_GONE,
	WAKE_RECORDS,
	WAKE_TIMER
};

/* Open the ring for records that a mechanism needs, once. */
int target_need_ring(struct trapline *t, uint32_t mechanism);

/* Closes those that only a reader of records needs: callbacks run without them. */
void target_drop_descriptors(struct trapline *t);

#endif
