/* SPDX-License-Identifier: MIT */
/* point_leg.h - letting a stopped process run until something stops it: what points are made of. */
#ifndef POINT_LEG_H
#define POINT_LEG_H

#include <trapline/tools.h>

#include "event/event.h"

struct leg {
	struct trapline *target;
	struct event_control *counter; /* may be NULL */
	struct event_control *arrival; /* may be NULL */
	uint64_t counter_stops;	       /* before this leg */
	uint64_t deadline_ns;	       /* 0: never */
	uint64_t early; /* the counter ends so early and the breakpoint counts; 0: it does not */
	uint64_t passes_left;	       /* for the breakpoint to accept */
	struct trapline_event *amount; /* whose interrupts come late, or never; may be NULL */
	uint64_t amount_end;	       /* the process is stopped when it has used up more */
	int is_past;		       /* it was */
};

#endif
