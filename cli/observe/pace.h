/* SPDX-License-Identifier: MIT */
/*
 * pace.h - turns the events off for a while: above a rate of hits, and above a cost for the target.
 */
#ifndef CLI_OBSERVE_PACE_H
#define CLI_OBSERVE_PACE_H

#include "cli/observe/rest.h"

#include <stddef.h>
#include <trapline/trapline.h>

struct pace {
	struct trapline_event *const *events; /* of the caller */
	size_t event_count;
	uint64_t *off;	 /* a word that is 1 in a pause; NULL: events are disabled instead */
	uint64_t budget; /* hits in a window; 0: no limit */
	uint64_t used;
	uint64_t window_end_ns;
	uint64_t paused_since_ns; /* 0: not paused */
	uint64_t paused_ns;
	uint64_t pauses;
	struct rest rest;
	/* Called before a rest: whether it is to begin. NULL: it is. */
	bool (*is_in_debt)(void *arg);
	void *arg;
	bool is_stuck; /* the events could not be enabled at the last try */
};

/* max_rate 0: no limit. off may be NULL. The caller starts p->rest, if there is to be any. */
void pace_start(struct pace *p, struct trapline_event *const *events, size_t event_count,
		uint64_t *off, uint64_t max_rate);
void pace_hit(struct pace *p);
/* Call this often. Returns the milliseconds until the next call is needed. */
int pace_tick(struct pace *p);
bool pace_is_off(const struct pace *p);
/* How often the events were turned off. */
uint64_t pace_times_off(const struct pace *p);
/* What a status line states of it, or an empty text. */
void pace_describe(const struct pace *p, uint64_t started_ns, char *buf, size_t n);
/* Disables the events for good. */
void pace_end(struct pace *p);

#endif
