/* SPDX-License-Identifier: MIT */
/* attr.h - what is asked of perf_event_open() for each kind of event. */
#ifndef EVENT_ATTR_H
#define EVENT_ATTR_H

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

#include <trapline/trapline.h>

#include "event/event.h"

/* Fill ev->attr and parts. */
int event_describe_range(struct trapline_event *ev, uint64_t addr, size_t len,
			 enum trapline_access access);
int event_describe_code(struct trapline_event *ev, uint64_t addr);
int event_describe_counter(struct trapline_event *ev, enum trapline_counter what, uint64_t period);
void event_attr_for_part(const struct trapline_event *ev, uint32_t part,
			 struct perf_event_attr *attr);

#endif
