/* SPDX-License-Identifier: MIT */
/* check.c - trapline_check(): the probes of src/event/ as a public table. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <trapline/trapline.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "check/probe.h"
#include "check/probe_run.h"
#include "event/event.h"
#include "point/point_trust.h"

/*
 * One row may take so long; all together so long. Rows that are too late say so.
 * Features precede costs, so that a slow machine loses costs first.
 */
#define ROW_MS 1500
#define ALL_MS 4000

static int budget_ms(uint64_t start_ns)
{
	int left = ALL_MS - (int)((clock_now_ns() - start_ns) / 1000000u);

	return left < ROW_MS ? left : ROW_MS;
}

static void feature_fill(struct trapline_feature *f, const struct probe *p, uint64_t start_ns)
{
	struct probe_result result;

	memset(&result, 0, sizeof(result));
	probe_run(p, budget_ms(start_ns), &result);
	f->name = p->name;
	f->ok = result.is_ok;
	snprintf(f->evidence, sizeof(f->evidence), "%s", result.evidence);
	snprintf(f->remedy, sizeof(f->remedy), "%s", result.remedy);
}

/* Whether a counter is exact enough for points: a self-test, which takes seconds for a PMU. */
static void points_fill(struct trapline_caps *out)
{
	static const struct {
		const char *name;
		enum trapline_counter counter;
	} rows[] = {
		{ "point_branches", TRAPLINE_CONDITIONAL_BRANCHES },
		{ "point_instructions", TRAPLINE_INSTRUCTIONS },
		{ "point_cycles", TRAPLINE_CYCLES },
		{ "point_syscalls", TRAPLINE_SYSCALLS },
	};

	for (size_t i = 0;
	     i < sizeof(rows) / sizeof(rows[0]) && out->feature_count < TRAPLINE_FEATURES_MAX;
	     i++) {
		struct trapline_feature *f = &out->features[out->feature_count++];
		const struct point_trust *trust = point_trust(rows[i].counter);

		f->name = rows[i].name;
		f->ok = !trust->err;
		snprintf(f->evidence, sizeof(f->evidence), "%s", trust->why);
		char *see = strstr(f->evidence, ": see `trapline check`");
		if (see)
			*see = '\0';
		snprintf(f->remedy, sizeof(f->remedy), "%s",
			 f->ok ? "" : "count occurrences: trapline at LOCATION#N needs no PMU");
	}
}

static int is_ok(const struct trapline_caps *caps, const char *name)
{
	for (uint32_t i = 0; i < caps->feature_count; i++) {
		if (!strcmp(caps->features[i].name, name))
			return caps->features[i].ok;
	}
	return 0;
}

static int has_open_events(void)
{
	for (int i = 0; i < EVENT_MAX; i++)
		if (atomic_get(&event_table[i].state) != EVENT_FREE)
			return 1;
	return 0;
}

int trapline_check(struct trapline_caps *out)
{
	uint64_t start = clock_now_ns();

	if (!out || out->size < sizeof(*out))
		return -EINVAL;
	if (has_open_events())
		return -EBUSY;
	out->feature_count = 0;
	out->cost_count = 0;
	for (const struct probe *p = probe_table; p->name; p++) {
		if (out->feature_count == TRAPLINE_FEATURES_MAX)
			break;
		feature_fill(&out->features[out->feature_count++], p, start);
	}
	points_fill(out);
	for (const struct probe_cost *c = probe_cost_table; c->name; c++) {
		if (out->cost_count == TRAPLINE_COSTS_MAX)
			break;
		struct trapline_cost *cost = &out->costs[out->cost_count++];

		cost->name = c->name;
		cost->ns = probe_measure(c, budget_ms(start));
	}
	return is_ok(out, "sigtrap") && is_ok(out, "watch_write");
}
