/* SPDX-License-Identifier: MIT */
/* heap_summary.c - what a run of heap has to say at its end. */
#include "report/heap/heap_report.h"

#include "report/plural.h"

#include <inttypes.h>

const char *const heap_counter_names[HEAP_COUNTERS] = {
	[HEAP_SAMPLED] = "sampled",
	[HEAP_REUSED] = "reused",
	[HEAP_LOST_FULL] = "lost_full",
	[HEAP_LOST_LARGE] = "lost_large",
	[HEAP_LOST_BUDGET] = "lost_budget",
	[HEAP_LOST_MEMORY] = "lost_memory",
	[HEAP_LOST_STACKS] = "lost_stacks",
	[HEAP_FOUND] = "found",
	[HEAP_FOUND_AGAIN] = "found_again",
	[HEAP_LOST_RECORDS] = "lost_records",
	[HEAP_LATE] = "late",
	[HEAP_LIVE_AT_END] = "live_at_end",
	[HEAP_COST_NS] = "cost_ns",
	[HEAP_CPU_NS] = "cpu_ns",
	[HEAP_PROCESSES] = "processes",
	[HEAP_REFUSED] = "refused",
};

void heap_totals(const struct heap_region *region, struct heap_totals *out)
{
	for (int i = 0; i < HEAP_COUNTERS; i++)
		out->counters[i] = __atomic_load_n(&region->counters[i], __ATOMIC_RELAXED);
	out->pool_bytes = __atomic_load_n(&region->pool_bytes, __ATOMIC_RELAXED);
	out->budget = (double)region->settings.budget_ppm / 1e6;
	out->first = region->settings.first;
}

static void print_lost(const struct heap_totals *t, FILE *f)
{
	const struct {
		enum heap_counter counter;
		const char *what;
	} rows[] = {
		{ HEAP_LOST_FULL, "blocks not sampled: the pool was full" },
		{ HEAP_LOST_LARGE, "blocks not sampled: larger than 256 KiB" },
		{ HEAP_LOST_MEMORY, "blocks not sampled: the kernel refused memory" },
		{ HEAP_LOST_RECORDS, "errors not reported: no room for the record" },
		{ HEAP_LOST_STACKS, "stacks not kept: no room" },
		{ HEAP_LATE, "faults not reported: the block was in use again" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (t->counters[rows[i].counter])
			fprintf(f, "  %" PRIu64 " %s\n", t->counters[rows[i].counter],
				rows[i].what);
}

static void print_cost(const struct heap_totals *t, FILE *f)
{
	double cost = (double)t->counters[HEAP_COST_NS];
	double cpu = (double)t->counters[HEAP_CPU_NS];

	fprintf(f, "  samples cost %.1f ms", cost / 1e6);
	if (cpu > 0)
		fprintf(f, ", %.1f%% of %.2f s of CPU time", 100 * cost / cpu, cpu / 1e9);
	fprintf(f, "; a process gets larger by at most %.0f MiB\n",
		(double)t->pool_bytes / 1048576);
}

void heap_summary_text(const struct heap_totals *t, bool is_verbose, FILE *f)
{
	fprintf(f,
		"trapline heap: %zu error%s; %" PRIu64 " block%s sampled in %" PRIu64
		" process%s, %" PRIu64 " in a slot that was used before\n",
		t->errors, plural(t->errors), t->counters[HEAP_SAMPLED],
		plural(t->counters[HEAP_SAMPLED]), t->counters[HEAP_PROCESSES],
		t->counters[HEAP_PROCESSES] == 1 ? "" : "es", t->counters[HEAP_REUSED]);
	if (t->suppressed || t->baselined)
		fprintf(f, "  %zu suppressed, %zu in the baseline\n", t->suppressed, t->baselined);
	print_cost(t, f);
	print_lost(t, f);
	fputs("  reads before a block are found in one of four samples only: no debug registers are used\n",
	      f);
	if (is_verbose)
		for (int i = 0; i < HEAP_COUNTERS; i++)
			fprintf(f, "  %s: %" PRIu64 "\n", heap_counter_names[i], t->counters[i]);
}
