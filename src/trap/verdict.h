/* SPDX-License-Identifier: MIT */
/* verdict.h - the condition of an event, evaluated for a hit by the handler or by the reader. */
#ifndef TRAP_VERDICT_H
#define TRAP_VERDICT_H

#include "event/event.h"

/* What a condition may ask beside what is in the hit. */
struct condition_input {
	const struct trapline_hit *hit;
	const struct trapline_event *event;
	uint64_t hits;
	uint64_t hits_in_thread;
	uint32_t cpu;
	const char *thread; /* 16 bytes, NUL-padded; NULL: the calling thread's */
};

/* 1 the hit counts, 0 it is rejected and counted so. AS-Safe. */
int condition_holds(struct trapline_event *ev, const struct condition_input *input);

/* hits_in_thread of the calling thread, counted up. The event has a thread_slot. AS-Safe. */
uint64_t condition_hit_in_thread(const struct trapline_event *ev);

/*
 * A location in each thread to count in, as long as the event lives. 0, or -ENOSPC: all are taken.
 */
int condition_take_thread_slot(struct trapline_event *ev);
void condition_give_thread_slot(struct trapline_event *ev);

#endif
