/* SPDX-License-Identifier: MIT */
/* pace.h - keeps the hits per second below a limit, by pausing the events. */
#ifndef CLI_OBSERVE_PACE_H
#define CLI_OBSERVE_PACE_H

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
};

/* max_rate 0: no limit. off may be NULL. */
void pace_start(struct pace *p, struct trapline_event *const *events, size_t event_count,
		uint64_t *off, uint64_t max_rate);
void pace_hit(struct pace *p);
/* Call this often. Returns the milliseconds until the next call is needed. */
int pace_tick(struct pace *p);
/* Disables the events for good. */
void pace_end(struct pace *p);

#endif
