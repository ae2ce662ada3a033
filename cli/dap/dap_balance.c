/* SPDX-License-Identifier: MIT */
/*
 * dap_balance.c - what the kernel counted for each breakpoint, and where it went: taken = delivered
 * + rejected + lost. Breakpoints that share an event share what it lost.
 */
#include "cli/dap/dap_arm.h"
#include "cli/dap/dap_hit.h"
#include "cli/dap/dap_point.h"
#include "cli/observe/event_stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ROWS_SAID 40

/* With what only a hit condition rejects. */
static void stats_of(const struct dap_point *p, struct run_end *end)
{
	struct trapline_stats st = { .size = sizeof(st) };

	*end = (struct run_end){ 0 };
	event_stats_add(p->arm->event, end);
	if (end->count_count < RUN_COUNTS_MAX && trapline_event_stats(p->arm->event, &st) >= 0)
		end->counts[end->count_count++] =
			(struct run_count){ .name = "skip", .value = st.rejected_skip };
}

static json_t *counts_json(const struct run_end *end, bool is_lost)
{
	json_t *j = json_object();

	for (size_t i = 0; i < end->count_count; i++)
		if (end->counts[i].is_lost == is_lost && end->counts[i].value)
			json_object_set_new(j, end->counts[i].name,
					    json_integer((json_int_t)end->counts[i].value));
	return j;
}

static json_t *point_json(struct dap *d, const struct dap_point *p)
{
	const struct dap_counts *c = &p->counts;
	struct run_end end;
	char name[300];

	dap_point_name(p, name, sizeof(name));
	json_t *j = json_pack("{s:i, s:o, s:b, s:I, s:I, s:I}", "id", p->id, "name",
			      run_json_text(name), "verified", p->is_verified, "hits",
			      (json_int_t)c->hits, "shown", (json_int_t)c->shown, "summed",
			      (json_int_t)(c->summed + c->unshown));
	if (!p->arm)
		return j;
	stats_of(p, &end);
	/* Those that share an event have one bookkeeping. */
	json_object_set_new(j, "sharedBy", json_integer((json_int_t)p->arm->points));
	json_object_set_new(j, "taken", json_integer((json_int_t)end.taken));
	json_object_set_new(j, "delivered", json_integer((json_int_t)end.delivered));
	json_object_set_new(j, "rejected", counts_json(&end, false));
	json_object_set_new(j, "lost", counts_json(&end, true));
	json_object_set_new(j, "unread", json_integer((json_int_t)end.unread));
	json_object_set_new(j, "removed", json_integer((json_int_t)p->arm->orphans));
	json_object_set_new(j, "pauses", json_integer((json_int_t)p->arm->pace.pauses));
	json_object_set_new(j, "paused_ns", json_integer((json_int_t)p->arm->pace.paused_ns));
	return j;
}

json_t *dap_balance(struct dap *d)
{
	json_t *rows = json_array();

	for (const struct dap_point *p = d->points; p; p = p->next)
		json_array_append_new(rows, point_json(d, p));
	return rows;
}

static uint64_t sum_of(const struct run_end *end, bool is_lost)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < end->count_count; i++)
		sum += end->counts[i].is_lost == is_lost ? end->counts[i].value : 0;
	return sum;
}

void dap_balance_point_say(struct dap *d, const struct dap_point *p)
{
	const struct dap_counts *c = &p->counts;
	struct run_end end;
	char name[300];
	char rest[300] = "";

	dap_point_name(p, name, sizeof(name));
	if (p->arm) {
		const struct pace *pace = &p->arm->pace;
		stats_of(p, &end);
		int used = snprintf(rest, sizeof(rest),
				    "; %s%" PRIu64 " rejected, %" PRIu64 " lost",
				    p->arm->is_shared ? "of its batch " : "", sum_of(&end, false),
				    sum_of(&end, true));
		if (pace->pauses)
			snprintf(rest + used, sizeof(rest) - (size_t)used,
				 ", %" PRIu64 " pause%s of %.1f s in all", pace->pauses,
				 pace->pauses == 1 ? "" : "s", (double)pace->paused_ns / 1e9);
	}
	dap_note(d, "%s: %" PRIu64 " hit%s, %" PRIu64 " shown, %" PRIu64 " in sums%s", name,
		 c->hits, c->hits == 1 ? "" : "s", c->shown, c->summed + c->unshown, rest);
}

void dap_balance_say(struct dap *d)
{
	size_t rows = 0;
	size_t others = 0;
	uint64_t hits = 0;

	for (const struct dap_point *p = d->points; p; p = p->next) {
		if (!p->is_verified)
			continue;
		if (rows < ROWS_SAID && p->counts.hits) {
			dap_balance_point_say(d, p);
			rows++;
		} else {
			others++;
			hits += p->counts.hits;
		}
	}
	if (others)
		dap_note(d, "%zu other breakpoint%s: %" PRIu64 " hit%s", others,
			 others == 1 ? "" : "s", hits, hits == 1 ? "" : "s");
}
