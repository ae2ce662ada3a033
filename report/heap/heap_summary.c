/* SPDX-License-Identifier: MIT */
/* heap_summary.c - what a run of heap has to state at its end. */
#include "report/heap/heap_report.h"

#include "report/plural.h"
#include "report/safe/clean.h"

#include <inttypes.h>
#include <string.h>

const char *const heap_counter_names[HEAP_COUNTERS] = {
	[HEAP_SAMPLED] = "sampled",
	[HEAP_DRAWN_BLOCKS] = "drawn",
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
	[HEAP_WATCHED] = "watched",
	[HEAP_LOST_WATCHES] = "lost_watches",
	[HEAP_INNOCENT] = "innocent",
	[HEAP_UNWATCHED] = "unwatched",
	[HEAP_LIVE_AT_END] = "live_at_end",
	[HEAP_COST_NS] = "cost_ns",
	[HEAP_CALLS_NS] = "calls_ns",
	[HEAP_FORKS_NS] = "forks_ns",
	[HEAP_CALLS] = "allocations",
	[HEAP_ASKED] = "asked",
	[HEAP_CPU_NS] = "cpu_ns",
	[HEAP_PROCESSES] = "processes",
	[HEAP_FORKED] = "forked",
	[HEAP_REFUSED] = "refused",
	[HEAP_LET_GO] = "let_go",
	[HEAP_OTHER_USER] = "other_user",
	[HEAP_LOST_COPIES] = "lost_copies",
	[HEAP_LOST_ROWS] = "lost_rows",
};

void heap_totals(const struct heap_region *region, struct heap_totals *out)
{
	for (int i = 0; i < HEAP_COUNTERS; i++)
		out->counters[i] = __atomic_load_n(&region->counters[i], __ATOMIC_RELAXED);
	out->pool_bytes = __atomic_load_n(&region->pool_bytes, __ATOMIC_RELAXED);
	out->is_growth = region->settings.growth != 0;
	out->budget = (double)region->settings.budget_ppm / 1e6;
	out->first = region->settings.first;
	out->seed = region->settings.seed;
	out->has_regions = __atomic_load_n(&region->has_regions, __ATOMIC_RELAXED) != 0;
	memcpy(out->why_unwatched, region->why_unwatched, sizeof(out->why_unwatched) - 1);
	clean_text(out->why_unwatched);
}

static void print_lost(const struct heap_totals *t, FILE *f)
{
	const struct {
		enum heap_counter counter;
		const char *what;
	} rows[] = {
		{ HEAP_LOST_BUDGET,
		  "blocks not sampled that were due: the budget was used up (--overhead)" },
		{ HEAP_LOST_FULL,
		  "blocks not sampled: too many sampled ones are still in use, and fill the pool" },
		{ HEAP_LOST_LARGE, t->is_growth ? "blocks not sampled: larger than 16 MiB" :
						  "blocks not sampled: larger than 1 MiB" },
		{ HEAP_LOST_COPIES,
		  "forked children ended with copies of their parent's blocks not inspected: the "
		  "budget was used up (--overhead)" },
		{ HEAP_LOST_ROWS, "stacks of blocks in use not reported: no room" },
		{ HEAP_LOST_MEMORY, "blocks not sampled: the kernel refused memory" },
		{ HEAP_LOST_RECORDS, "errors not reported: no room for the record" },
		{ HEAP_LOST_STACKS, "stacks not kept: no room" },
		{ HEAP_LATE,
		  "faults and traps not reported: the thread or the block was elsewhere by then" },
		{ HEAP_LOST_WATCHES, "blocks without a register: the kernel refused to move it" },
		{ HEAP_LET_GO,
		  "processes not sampled further: a SIGSEGV was sent that they block" },
		{ HEAP_OTHER_USER,
		  "processes changed their user: programs that they execute then are not sampled; "
		  "run trapline as that user" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (t->counters[rows[i].counter])
			fprintf(f, "  %" PRIu64 " %s\n", t->counters[rows[i].counter],
				rows[i].what);
}

/* What the chance to find an error follows from: trapline-heap(1) has how. */
static void print_chance(const struct heap_totals *t, FILE *f)
{
	uint64_t drawn = t->counters[HEAP_DRAWN_BLOCKS];
	uint64_t calls = t->counters[HEAP_CALLS];

	if (drawn && calls >= drawn)
		fprintf(f,
			"  %" PRIu64 " block%s of all alike: 1 of %.0f allocations (seed %" PRIu64
			")\n",
			drawn, plural(drawn), (double)calls / (double)drawn, t->seed);
	else
		fprintf(f,
			"  no block was drawn of all alike: 1 of each context at least (seed %" PRIu64
			")\n",
			t->seed);
}

/* A shorter run is mostly start: its share means nothing. */
#define SHORT_NS 100e6

#define CALL_MOST_NS 150.0   /* where the program's own code and data fill the caches */
#define CALLS_MOST_SHARE 0.2 /* ... of a program that does all else too */

static double larger_of(double a, double b)
{
	return a > b ? a : b;
}

static double calls_most(const struct heap_totals *t)
{
	const double full = CALL_MOST_NS * (double)t->counters[HEAP_CALLS];
	const double share = CALLS_MOST_SHARE * (double)t->counters[HEAP_CPU_NS];

	return larger_of(full < share ? full : share, 1.5 * (double)t->counters[HEAP_CALLS_NS]);
}

/*
 * What cannot be measured is what the program's caches lose. In pairs of runs, programs lost up to
 * twice as much by samples as is counted, and half as much more by forks and calls. A call cost up
 * to 140 ns where they use much memory and the machine is busy (bench/heap_pairs.py).
 */
double heap_cost_most(const struct heap_totals *t)
{
	const double forks = (double)t->counters[HEAP_FORKS_NS];
	const double others = (double)t->counters[HEAP_CALLS_NS] + forks;
	const double cost = (double)t->counters[HEAP_COST_NS];

	return calls_most(t) + 1.5 * forks + 2 * larger_of(cost - others, 0);
}

static void print_share(const struct heap_totals *t, FILE *f)
{
	const double cost = (double)t->counters[HEAP_COST_NS];
	const double calls = (double)t->counters[HEAP_CALLS_NS];
	const double forks = (double)t->counters[HEAP_FORKS_NS];
	const double cpu = (double)t->counters[HEAP_CPU_NS];

	if (cpu < SHORT_NS || cost >= cpu)
		return;
	fprintf(f, cpu < 1e9 ? ", %.1f%% of %.1f ms of CPU time" : ", %.1f%% of %.2f s of CPU time",
		100 * cost / cpu, cpu < 1e9 ? cpu / 1e6 : cpu / 1e9);
	fprintf(f, " as estimated, at most some %.1f%%", 100 * heap_cost_most(t) / cpu);
	if (calls > t->budget * cpu)
		fprintf(f, "; the calls alone are %.1f%%, for the program allocates often",
			100 * calls / cpu);
	if (forks > t->budget * cpu)
		fprintf(f, "; forks alone are %.1f%%, for the kernel copies the detector too",
			100 * forks / cpu);
}

static void print_cost(const struct heap_totals *t, FILE *f)
{
	fprintf(f, "  sampling cost %.1f ms", (double)t->counters[HEAP_COST_NS] / 1e6);
	print_share(t, f);
	if (!t->is_growth)
		fprintf(f, "; a process gets larger by at most %.0f MiB",
			(double)t->pool_bytes / 1048576);
	fputc('\n', f);
}

/* What looks as without errors must state where nothing was inspected. */
static void print_watches(const struct heap_totals *t, FILE *f)
{
	uint64_t without = t->counters[HEAP_UNWATCHED];

	if (t->counters[HEAP_INNOCENT])
		fprintf(f,
			"  %" PRIu64 " aligned vector read%s that began before a block: not an "
			"error\n",
			t->counters[HEAP_INNOCENT], plural(t->counters[HEAP_INNOCENT]));
	if (without)
		fprintf(f,
			"  %" PRIu64 " process%s had no debug register, so reads before a block "
			"were found in one of four samples only%s%s\n",
			without, without == 1 ? "" : "es", t->why_unwatched[0] ? ": " : "",
			t->why_unwatched);
}

static void print_sampled(const struct heap_totals *t, FILE *f)
{
	fputs("trapline heap: ", f);
	/* Those that a freed block proves are reported with growth as well. */
	if (!t->is_growth || t->errors)
		fprintf(f, "%zu error%s; ", t->errors, plural(t->errors));
	fprintf(f, "%" PRIu64 " block%s sampled in %" PRIu64 " process%s",
		t->counters[HEAP_SAMPLED], plural(t->counters[HEAP_SAMPLED]),
		t->counters[HEAP_PROCESSES], t->counters[HEAP_PROCESSES] == 1 ? "" : "es");
	if (!t->is_growth)
		fprintf(f, ", %" PRIu64 " in a slot that was used before",
			t->counters[HEAP_REUSED]);
	fputc('\n', f);
}

void heap_summary_text(const struct heap_totals *t, bool is_verbose, FILE *f)
{
	print_sampled(t, f);
	if (t->suppressed || t->baselined)
		fprintf(f, "  %zu suppressed, %zu in the baseline\n", t->suppressed, t->baselined);
	print_chance(t, f);
	print_cost(t, f);
	print_lost(t, f);
	print_watches(t, f);
	if (is_verbose && !t->is_growth)
		fprintf(f, "  guards: %s\n", t->has_regions ? "regions" : "mprotect");
	if (is_verbose)
		for (int i = 0; i < HEAP_COUNTERS; i++)
			fprintf(f, "  %s: %" PRIu64 "\n", heap_counter_names[i], t->counters[i]);
}
