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
 * One row may take so long; all together so long. Rows that are too late state so.
 * Features precede costs, so that a slow machine loses costs first.
 */
#define ROW_MS 1500
#define ALL_MS 4000
/* On a busy machine what is not known yet has so long. */
#define AGAIN_ROW_MS 4000
#define AGAIN_ALL_MS 16000

static int budget_ms(uint64_t start_ns, int all_ms, int row_ms)
{
	int left = all_ms - (int)((clock_now_ns() - start_ns) / 1000000u);

	return left < row_ms ? left : row_ms;
}

static void feature_fill(struct trapline_feature *f, const struct probe *p, int budget)
{
	struct probe_result result;

	memset(&result, 0, sizeof(result));
	probe_run(p, budget, &result);
	f->name = p->name;
	f->ok = result.is_ok;
	f->is_known = !result.is_unknown;
	snprintf(f->evidence, sizeof(f->evidence), "%s", result.evidence);
	snprintf(f->remedy, sizeof(f->remedy), "%s", result.remedy);
}

static void features_fill(struct trapline_caps *out, uint64_t start_ns)
{
	for (const struct probe *p = probe_table; p->name; p++) {
		if (out->feature_count == TRAPLINE_FEATURES_MAX)
			break;
		feature_fill(&out->features[out->feature_count++], p,
			     budget_ms(start_ns, ALL_MS, ROW_MS));
	}
	for (uint32_t i = 0; i < out->feature_count; i++) {
		const int budget = budget_ms(start_ns, AGAIN_ALL_MS, AGAIN_ROW_MS);

		if (!out->features[i].is_known && budget > 0)
			feature_fill(&out->features[i], &probe_table[i], budget);
	}
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
		f->is_known = 1;
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
	features_fill(out, start);
	points_fill(out);
	for (const struct probe_cost *c = probe_cost_table; c->name; c++) {
		if (out->cost_count == TRAPLINE_COSTS_MAX)
			break;
		struct trapline_cost *cost = &out->costs[out->cost_count++];

		cost->name = c->name;
		cost->ns = probe_measure(c, budget_ms(start, ALL_MS, ROW_MS));
	}
	return is_ok(out, "sigtrap") && is_ok(out, "watch_write");
}
