// SPDX-License-Identifier: MIT
/*
 * pace.c - a storm of hits must not drown the target.
 *
 * Time is cut into windows; a window that used up its hits ends disarmed. Records that were
 * already on their way when we disarm count too, and are paid for by a longer pause. Hits in a
 * pause are not seen: how long they were is said in the summary.
 */
#include "cli/pace.h"

#include "cli/clock.h"

#define WINDOW_NS 50000000u
#define WINDOWS_PER_SECOND 20u
#define TICK_MAX_MS 100

static int switch_all(const struct pace *p, int (*how)(struct trapline_event *event))
{
	int err = 0;

	for (size_t i = 0; i < p->event_count; i++) {
		int one = how(p->events[i]);
		err = one < 0 ? one : err;
	}
	return err;
}

void pace_start(struct pace *p, struct trapline_event *const *events, size_t event_count,
		uint64_t max_rate)
{
	*p = (struct pace){ .events = events, .event_count = event_count };
	if (max_rate)
		p->budget = (max_rate + WINDOWS_PER_SECOND - 1) / WINDOWS_PER_SECOND;
	p->window_end_ns = now_ns() + WINDOW_NS;
}

/* Windows that passed pay for their hits; what is beyond stays as a debt for the next ones. */
static void roll(struct pace *p, uint64_t now)
{
	if (now < p->window_end_ns)
		return;
	uint64_t windows = (now - p->window_end_ns) / WINDOW_NS + 1;
	p->window_end_ns += windows * WINDOW_NS;
	p->used = p->used > windows * p->budget ? p->used - windows * p->budget : 0;
}

void pace_hit(struct pace *p)
{
	if (!p->budget || ++p->used < p->budget || p->paused_since_ns)
		return;
	uint64_t now = now_ns();
	roll(p, now);
	if (p->used < p->budget || switch_all(p, trapline_event_disable) < 0)
		return;
	p->paused_since_ns = now;
	p->pauses++;
}

static void resume(struct pace *p, uint64_t now)
{
	p->paused_ns += now - p->paused_since_ns;
	p->paused_since_ns = 0;
	switch_all(p, trapline_event_enable);
}

int pace_tick(struct pace *p)
{
	uint64_t now = now_ns();

	if (!p->budget)
		return TICK_MAX_MS;
	roll(p, now);
	if (p->paused_since_ns && p->used < p->budget)
		resume(p, now);
	if (!p->paused_since_ns)
		return TICK_MAX_MS;
	return (int)((p->window_end_ns - now) / 1000000u) + 1;
}

void pace_end(struct pace *p)
{
	switch_all(p, trapline_event_disable);
	p->budget = 0;
	if (p->paused_since_ns)
		p->paused_ns += now_ns() - p->paused_since_ns;
	p->paused_since_ns = 0;
}
