/* SPDX-License-Identifier: MIT */
/*
 * pace.c - limits the rate of hits, and what they cost the target.
 *
 * Each window of time has a budget of hits. When it is used up, the events are disabled until the
 * window ends. Records that were already in the buffer count too and make the pause longer. Hits in
 * a pause are not seen; the summary reports how long the pauses were.
 *
 * A pause leaves breakpoints in the code, where a trap costs as much as ever. A rest takes them
 * out.
 */
#include "cli/observe/pace.h"

#include "base/atomic.h"
#include "base/clock.h"

#include <stdio.h>

#define WINDOW_NS 50000000u
#define WINDOWS_PER_SECOND 20u
#define TICK_MAX_MS 100

static int switch_all(const struct pace *p, int (*how)(struct trapline_event *event))
{
	int err = 0;

	if (p->off)
		atomic_set(p->off, (uint64_t)(how != trapline_event_enable));
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
	if (!p->budget || ++p->used < p->budget || pace_is_off(p))
		return;
	uint64_t now = clock_now_ns();
	roll(p, now);
	if (p->used < p->budget || switch_all(p, trapline_event_disable) < 0)
		return;
	p->paused_since_ns = now;
	p->pauses++;
}

/* Tried again at the next call if it fails, as when the program is being replaced. */
static void turn_on(struct pace *p)
{
	p->is_stuck = switch_all(p, trapline_event_enable) < 0;
}

static void resume(struct pace *p, uint64_t now)
{
	p->paused_ns += now - p->paused_since_ns;
	p->paused_since_ns = 0;
	turn_on(p);
}

static void set_resting(struct pace *p, bool rests)
{
	uint64_t started = clock_now_ns();

	/* A pause becomes a rest, so that no time counts twice. */
	if (rests && p->paused_since_ns) {
		p->paused_ns += started - p->paused_since_ns;
		p->paused_since_ns = 0;
	}
	if (rests)
		switch_all(p, trapline_event_rest);
	else
		turn_on(p);
	rest_switched(&p->rest, rests, started, clock_now_ns());
}

static bool is_to_rest(struct pace *p, uint64_t now)
{
	bool rests = rest_look(&p->rest, now);

	if (!rests || p->rest.since_ns || !p->is_in_debt)
		return rests;
	return p->is_in_debt(p->arg);
}

int pace_tick(struct pace *p)
{
	uint64_t now = clock_now_ns();
	int ms = TICK_MAX_MS;

	if (p->is_stuck && !pace_is_off(p))
		turn_on(p);
	bool rests = is_to_rest(p, now);
	if (rests != (p->rest.since_ns != 0))
		set_resting(p, rests);
	if (p->rest.share > 0)
		ms = p->rest.next_ns > now ? (int)((p->rest.next_ns - now) / 1000000u) + 1 : 1;
	ms = ms < TICK_MAX_MS ? ms : TICK_MAX_MS;
	if (!p->budget)
		return ms;
	now = clock_now_ns();
	roll(p, now);
	if (p->paused_since_ns && p->used < p->budget)
		resume(p, now);
	if (!p->paused_since_ns)
		return ms;
	int pause_ms = (int)((p->window_end_ns - now) / 1000000u) + 1;
	return pause_ms < ms ? pause_ms : ms;
}

bool pace_is_off(const struct pace *p)
{
	return p->paused_since_ns || p->rest.since_ns;
}

uint64_t pace_times_off(const struct pace *p)
{
	return p->pauses + p->rest.rests;
}

void pace_describe(const struct pace *p, uint64_t started_ns, char *buf, size_t n)
{
	uint64_t now = clock_now_ns();
	uint64_t rested = p->rest.rested_ns + (p->rest.since_ns ? now - p->rest.since_ns : 0);

	buf[0] = 0;
	if (p->rest.rests && now > started_ns)
		snprintf(buf, n, ", observed %.0f%% of the time (--budget)",
			 100.0 - 100.0 * (double)rested / (double)(now - started_ns));
	else if (p->paused_since_ns)
		snprintf(buf, n, ", paused");
}

void pace_end(struct pace *p)
{
	uint64_t now = clock_now_ns();

	switch_all(p, trapline_event_disable);
	p->budget = 0;
	if (p->paused_since_ns)
		p->paused_ns += now - p->paused_since_ns;
	p->paused_since_ns = 0;
	rest_end(&p->rest, now);
}
