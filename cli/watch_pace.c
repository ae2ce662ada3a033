// SPDX-License-Identifier: MIT
/*
 * watch_pace.c - a storm of hits must not drown the target.
 *
 * Time is cut into windows; a window that used up its hits ends disarmed. Records that were
 * already on their way when we disarm count too, and are paid for by a longer pause. Hits in a
 * pause are not seen: how long they were is said in the summary.
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

/* Windows that passed pay for their hits; what is beyond stays as a debt for the next ones. */
static void roll(struct watch_pace *p, uint64_t now)
{
	if (now < p->window_end_ns)
		return;
	uint64_t windows = (now - p->window_end_ns) / WINDOW_NS + 1;
	p->window_end_ns += windows * WINDOW_NS;
	p->used = p->used > windows * p->budget ? p->used - windows * p->budget : 0;
}

void watch_pace_hit(struct watch_pace *p)
{
	if (!p->budget || ++p->used < p->budget || p->paused_since_ns)
		return;
	uint64_t now = watch_now_ns();
	roll(p, now);
	if (p->used < p->budget || trapline_event_disable(p->event) < 0)
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
	roll(p, now);
	if (p->paused_since_ns && p->used < p->budget)
		resume(p, now);
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
