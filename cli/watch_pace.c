// SPDX-License-Identifier: MIT
/*
 * watch_pace.c - a storm of hits must not drown the target.
 *
 * Time is cut into windows; a window that used up its hits ends disarmed. The hits of the pause
 * are not seen: how long it was is said in the summary.
 */
#include "cli/watch.h"

#include <time.h>

#define WINDOW_NS 50000000u
#define WINDOWS_PER_SECOND 20u
#define TICK_MAX_MS 100

uint64_t watch_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void watch_pace_start(struct watch_pace *p, struct trapline_event *event, uint64_t max_rate)
{
	*p = (struct watch_pace){ .event = event };
	if (max_rate)
		p->budget = (max_rate + WINDOWS_PER_SECOND - 1) / WINDOWS_PER_SECOND;
	p->window_end_ns = watch_now_ns() + WINDOW_NS;
}

void watch_pace_hit(struct watch_pace *p)
{
	if (!p->budget || ++p->used < p->budget || p->paused_since_ns)
		return;
	uint64_t now = watch_now_ns();
	if (now >= p->window_end_ns) {
		/* Nobody ticked for a while: the hits so far belong to more than one window. */
		p->window_end_ns = now + WINDOW_NS;
		p->used = 1;
		return;
	}
	if (trapline_event_disable(p->event) < 0)
		return;
	p->paused_since_ns = now;
	p->pauses++;
}

static void resume(struct watch_pace *p, uint64_t now)
{
	p->paused_ns += now - p->paused_since_ns;
	p->paused_since_ns = 0;
	trapline_event_enable(p->event);
}

int watch_pace_tick(struct watch_pace *p)
{
	uint64_t now = watch_now_ns();

	if (!p->budget)
		return TICK_MAX_MS;
	if (now >= p->window_end_ns) {
		p->window_end_ns = now + WINDOW_NS;
		p->used = 0;
		if (p->paused_since_ns)
			resume(p, now);
	}
	if (!p->paused_since_ns)
		return TICK_MAX_MS;
	return (int)((p->window_end_ns - now) / 1000000u) + 1;
}

void watch_pace_end(struct watch_pace *p)
{
	if (!p->paused_since_ns)
		return;
	p->paused_ns += watch_now_ns() - p->paused_since_ns;
	p->paused_since_ns = 0;
}
