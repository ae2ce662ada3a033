/* SPDX-License-Identifier: MIT */
/* arm.h - open an event in every thread in scope. */
#ifndef EVENT_ARM_H
#define EVENT_ARM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "event/event.h"

/* What arming does with each new descriptor, before it is enabled. Returns 0 or -errno. */
typedef int (*event_prepare)(struct trapline_event *ev, int fd, uint32_t part, uint32_t class,
			     int cpu);

/* Open the event in all threads in scope; takes `op` in the meantime. */
int event_arm(struct trapline_event *ev, const pid_t *tids, size_t tid_count,
	      event_prepare prepare);
/* The same, but on failure it leaves what it opened to event_disarm(): callbacks may be running. */
int event_try_arm(struct trapline_event *ev, const pid_t *tids, size_t tid_count,
		  event_prepare prepare);
void event_disarm(struct trapline_event *ev);
/* Have room for descriptors of so many threads, for event_aim_again(). Not in a handler. */
int event_reserve(struct trapline_event *ev, size_t threads);

#endif
