/* SPDX-License-Identifier: MIT */
/*
 * pace.c - limits the rate of hits, so that a hot variable does not slow the target down.
 *
 * Each window of time has a budget of hits. When it is used up, the events are disabled until the
 * window ends. Records that were already in the buffer count too and make the pause longer. Hits in a
 * pause are not seen; the summary reports how long the pauses were.
 */
#include "cli/observe/pace.h"

#include "base/atomic.h"
#include "base/clock.h"

#define WINDOW_NS 50000000u
#define WINDOWS_PER_SECOND 20u
#define TICK_MAX_MS 100

static int switch_all(const struct pace *p, int (*how)(struct trapline_event *event))
{
	int err = 0;

	if (p->off)
		atomic_set(p->off, (uint64_t)(how == trapline_event_disable));
	for (size_t i = 0; i < p->event_count; i++) {
		int one = how(p->events[i]);
		err = one < 0 ? one : err;
	}
	return err;
}

void pace_start(struct pace *p, struct trapline_event *const *events, size_t event_count,
		uint64_t *off, uint64_t max_rate)
{
	*p = (struct pace){ .events = events, .event_count = event_count, .off = off };
	if (max_rate)
		p->budget = (max_rate + WINDOWS_PER_SECOND - 1) / WINDOWS_PER_SECOND;
	p->window_end_ns = clock_now_ns() + WINDOW_NS;
}

/* Each window that passed adds its budget. Hits beyond it are charged to the next windows. */
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
	uint64_t now = clock_now_ns();
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
	uint64_t now = clock_now_ns();

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
		p->paused_ns += clock_now_ns() - p->paused_since_ns;
	p->paused_since_ns = 0;
}
