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
	struct trapline_event *amount; /* whose interrupts come late, or never; may be NULL */
	uint64_t amount_end;	       /* the process is stopped when it has used up more */
	int is_past;		       /* it was */
};

/* point_api.c: SIGCONT, and until a program, or what is past the end, has stopped the process. */
int leg_go(struct leg *leg);
/* SIGSTOP, and until it stands; nothing if it does already. */
int leg_stand(const struct leg *leg);
/* Says so, with the distance. */
int point_missed(uint64_t count, uint64_t wanted);

/*
 * point_amount.c: to shortly before the count, by an interrupt that is asked for so early that the
 * latest one is early enough. Nothing where it is near already.
 */
int leg_near_amount(struct leg *leg, uint64_t count);
int leg_read_amount(const struct leg *leg, uint64_t *out);

/*
 * point_trust.c: whether a counter can tell points, and how late its interrupts come. Tried once,
 * in a child; `why` has the figures, or what is wrong.
 */
struct point_trust {
	int err;	/* 0: it can */
	uint64_t early; /* so much before the point an interrupt is asked for */
	uint64_t near;	/* distances below are not worth one */
	char why[160];
};
const struct point_trust *point_trust(enum trapline_counter counter);

#endif
