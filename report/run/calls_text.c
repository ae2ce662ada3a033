/* SPDX-License-Identifier: MIT */
/* calls_text.c - calls as lines for people, and the summary of a run of breakpoints. */
#include "report/run/groups.h"
#include "report/run/run_text.h"
#include "report/safe/clean.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HISTOGRAMS_MAX 5
#define BAR_WIDTH 40

/* Hits by something, most first; functions by the time that their calls took in all. */
struct table {
	struct tally_sum *sum;
	size_t count;
	uint64_t total;
};

static struct table table_make(const struct tally *t, bool by_thread)
{
	struct table table = { 0 };

	table.sum = tally_sums(t, by_thread, &table.count);
	for (size_t i = 0; i < table.count; i++)
		table.total += table.sum[i].hits;
	return table;
}

static int most_time_first(const void *a, const void *b, void *calls)
{
	const struct run_calls *c = calls;
	uint64_t x = c->sums[((const struct tally_sum *)a)->ip].total_ns;
	uint64_t y = c->sums[((const struct tally_sum *)b)->ip].total_ns;

	return x != y ? (x < y ? 1 : -1) : 0;
}

static void text_durations(FILE *f, const struct run_site_sums *b)
{
	char total[32];
	char mean[32];
	char most[32];

	if (!b->returns) {
		fprintf(f, "%10s %10s %10s  ", "-", "-", "-");
		return;
	}
	run_duration_text(b->total_ns, total, sizeof(total));
	run_duration_text(b->total_ns / b->returns, mean, sizeof(mean));
	run_duration_text(b->max_ns, most, sizeof(most));
	fprintf(f, "%10s %10s %10s  ", total, mean, most);
}

static bool is_of_kernel(const struct run_calls *calls)
{
	return calls->site_count && calls->site[0].kind == RUN_SITE_KERNEL;
}

static void text_functions(const struct run_text *o, const struct run_calls *calls,
			   const struct table *t)
{
	size_t rows = run_text_rows(o);
	FILE *f = o->f;

	fprintf(f, "\n%10s %6s %8s  ", "hits", "share", "threads");
	if (calls->with_results)
		fprintf(f, "%10s %10s %10s  ", "total", "mean", "longest");
	fputs(is_of_kernel(calls) ? "event\n" : "function\n", f);
	for (size_t i = 0; i < t->count && i < rows; i++) {
		const struct tally_sum *sum = &t->sum[i];
		const struct run_site *site = &calls->site[sum->ip];
		fprintf(f, "%10" PRIu64 " %5.1f%% %8zu  ", sum->hits,
			100.0 * (double)sum->hits / (double)t->total, sum->others);
		if (calls->with_results)
			text_durations(f, &calls->sums[sum->ip]);
		fprintf(f, "%s%s%s%s\n", site->name,
			site->kind == RUN_SITE_INLINED ? " [inlined]" : "",
			site->module ? " in " : "", site->module ? site->module : "");
	}
	if (t->count > rows)
		fprintf(f, "%10s and %zu more\n", "", t->count - rows);
}

static void text_histogram(FILE *f, const struct run_site *site, const struct run_site_sums *b)
{
	uint64_t most = 0;
	int first = RUN_BUCKETS;
	int last = 0;

	for (int i = 0; i < RUN_BUCKETS; i++) {
		most = b->buckets[i] > most ? b->buckets[i] : most;
		if (b->buckets[i] && first == RUN_BUCKETS)
			first = i;
		if (b->buckets[i])
			last = i;
	}
	fprintf(f, "\n%s: %" PRIu64 " call%s returned, after\n", site->name, b->returns,
		b->returns == 1 ? "" : "s");
	for (int i = first; i <= last; i++) {
		char from[32];
		char bar[BAR_WIDTH + 1];
		/* A bar of at least one character. */
		size_t len = (size_t)((b->buckets[i] * BAR_WIDTH + most - 1) / most);
		run_duration_text(i ? UINT64_C(1) << i : 0, from, sizeof(from));
		memset(bar, '#', len);
		bar[len] = 0;
		fprintf(f, "%10s or more %10" PRIu64 "  %s\n", from, b->buckets[i], bar);
	}
}

static void text_histograms(FILE *f, const struct run_calls *calls,
			    const struct run_calls_end *more, const struct table *t)
{
	size_t shown = 0;

	for (size_t i = 0; i < t->count && shown < HISTOGRAMS_MAX; i++) {
		const struct run_site_sums *b = &calls->sums[t->sum[i].ip];
		if (!b->returns || !b->buckets)
			continue;
		text_histogram(f, &calls->site[t->sum[i].ip], b);
		shown++;
	}
	if (more->not_returned)
		fprintf(f, "\n%" PRIu64 " call%s had not returned\n", more->not_returned,
			more->not_returned == 1 ? "" : "s");
	if (more->unpaired)
		fprintf(f, "%" PRIu64 " returns belong to calls that were not seen\n",
			more->unpaired);
}

static void print_cost(FILE *f, double ns)
{
	if (ns >= 0)
		fprintf(f, ", about %.1f us a hit", ns / 1000);
}

/* `mechanism: 1 probe, 3 ns per rejected hit` */
static void text_probes(FILE *f, const struct run_calls_end *more, const char *evaluated_in)
{
	fprintf(f, "mechanism: %" PRIu64 " probe%s", more->probes + more->traps,
		more->probes + more->traps == 1 ? "" : "s");
	if (more->traps)
		fprintf(f, ", %" PRIu64 " of them by int3, since no jump fits there", more->traps);
	if (more->probe_ns >= 0)
		fprintf(f, ", about %.0f ns per %shit", more->probe_ns,
			evaluated_in ? "rejected " : "");
	fputs(more->is_in_code ? "; rejected hits are not counted\n" : "\n", f);
}

static void text_mechanism(FILE *f, const struct run_calls_end *more, const char *evaluated_in)
{
	const struct {
		uint64_t count;
		double cost_ns;
		const char *text;
	} kinds[] = {
		{ more->emulated, more->emulated_ns, "uprobe%s on an emulated instruction" },
		{ more->stepped, more->stepped_ns, "single-stepped uprobe%s" },
		{ more->hardware, more->hardware_ns, "hardware breakpoint%s" },
	};
	const char *before = "mechanism: ";

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!kinds[i].count)
			continue;
		fprintf(f, "%s%" PRIu64 " ", before, kinds[i].count);
		fprintf(f, kinds[i].text, kinds[i].count == 1 ? "" : "s");
		print_cost(f, kinds[i].cost_ns);
		before = "; ";
	}
	if (more->probes || more->traps) {
		text_probes(f, more, evaluated_in);
		return;
	}
	if (more->tracepoints) {
		fprintf(f, "mechanism: %" PRIu64 " program%s at tracepoints of the kernel\n",
			more->tracepoints, more->tracepoints == 1 ? "" : "s");
		return;
	}
	if (more->no_probe)
		fprintf(f, "; no probes: %s", more->no_probe);
	fputs(*before == 'm' ? "mechanism: not recorded\n" : "\n", f);
}

/* The mean cost of a hit, weighted by the hits of each kind of site. Negative: not known. */
static double mean_cost(const struct run_calls *calls, const struct run_calls_end *more)
{
	double sum = 0;
	uint64_t hits = 0;

	if (more->probes || more->traps)
		return -1;
	for (size_t i = 0; calls->sums && i < calls->site_count; i++) {
		double ns = more->hardware	       ? more->hardware_ns :
			    calls->site[i].is_emulated ? more->emulated_ns :
							 more->stepped_ns;
		if (ns < 0)
			continue;
		sum += ns * (double)calls->sums[i].hits;
		hits += calls->sums[i].hits;
	}
	if (hits)
		return sum / (double)hits;
	return more->emulated ? more->emulated_ns :
	       more->stepped  ? more->stepped_ns :
				more->hardware_ns;
}

static void text_bookkeeping(FILE *f, const struct run_calls *calls, const struct run_end *end,
			     const struct run_calls_end *more)
{
	if (calls->with_results)
		fputs("a return counts as one taken and delivered, beside its call\n", f);
	if (more->beyond)
		fprintf(f, "%" PRIu64 " of those delivered came after the limit\n", more->beyond);
	run_text_evaluation(f, end);
	text_mechanism(f, more, end->evaluated_in);
	fprintf(f, "ended: %s\n", end->reason);
}

static void text_limits(struct run_text *o, const struct run_calls *calls,
			const struct run_end *end, const struct run_calls_end *more)
{
	bool stays = more->emulated + more->stepped > 0;
	FILE *f = o->f;

	run_text_pauses(f, end, stays ? ", but calls cost as much as ever" : "");
	if (more->other_results)
		fprintf(f, "--if rejected %" PRIu64 " calls by their results\n",
			more->other_results);
	if (calls->copies_left_out)
		fprintf(f,
			"not seen: %" PRIu64 " inlined copies of matching functions (--inlined)\n",
			calls->copies_left_out);
	if (more->refused)
		fprintf(f,
			"not seen: %" PRIu64 " sites where the kernel refuses a breakpoint: %s\n",
			more->refused, more->refused_names);
	if (is_of_kernel(calls))
		return;
	if (o->is_verbose || !end->taken)
		fputs("not seen: calls in objects loaded since; calls that jump past the first "
		      "instruction; inlined copies without debug information\n",
		      f);
}

void run_text_calls_end(struct run_text *o, const struct run_calls *calls,
			const struct run_end *end, const struct run_calls_end *more)
{
	struct table functions = table_make(&calls->functions, false);
	struct table callers = table_make(&calls->callers, false);
	struct table threads = table_make(&calls->functions, true);
	struct table processes = table_make(&calls->processes, true);
	uint64_t total = functions.total;
	struct run_calls sums = *calls;
	struct run_lines lines;
	struct run_text rest;
	FILE *f = o->f;

	if (calls->with_results && functions.count)
		qsort_r(functions.sum, functions.count, sizeof(*functions.sum), most_time_first,
			&sums);
	run_text_headline(o, total, end);
	if (end->groups) {
		run_groups_text(o, end->groups);
	} else if (total) {
		text_functions(o, calls, &functions);
		if (callers.count)
			run_text_sites(o, callers.sum, callers.count, callers.total, "from");
		if (processes.count > 1)
			run_text_processes(o, processes.sum, processes.count, total);
		run_text_threads(o, threads.sum, threads.count, total);
	}
	if (calls->with_results)
		text_histograms(f, calls, more, &functions);
	run_text_more_begin(&rest, o, &lines);
	run_text_exceptions(&rest, &(struct run_info){ .what = calls->description }, end,
			    mean_cost(calls, more) / (calls->with_results ? 2 : 1));
	if (o->is_verbose)
		text_bookkeeping(rest.f, calls, end, more);
	else if (more->probes || more->traps)
		text_probes(rest.f, more, end->evaluated_in);
	text_limits(&rest, calls, end, more);
	run_text_more_end(&rest, o, &lines, total != 0);
	free(processes.sum);
	free(threads.sum);
	free(callers.sum);
	free(functions.sum);
}

/* Where from: the caller of a function, the function around a copy or an instruction. */
static void origin_text(const struct run_calls *calls, const struct run_hit *hit, char *buf,
			size_t n)
{
	const struct run_call *call = hit->call;
	bool is_call = run_site_is_call(calls->site[call->site].kind);
	const struct place *p = is_call ? &call->caller_place : &hit->place;
	uint64_t ip = is_call ? call->caller : hit->ip;
	bool with_module = !p->file && p->function && p->module;
	char text[400];

	if (!ip) {
		snprintf(buf, n, "from ?");
		return;
	}
	run_place_text_with_line(p, ip, text, sizeof(text));
	snprintf(buf, n, "%s %s%s%s", is_call ? "from" : "in", text, with_module ? " in " : "",
		 with_module ? p->module : "");
}

void run_text_call(struct run_text *o, const struct run_info *info, const struct run_calls *calls,
		   const struct run_hit *hit)
{
	char thread[64] = "";
	char text[RUN_CALL_TEXT];
	char origin[450];

	if (hit->process && hit->tid != hit->pid)
		snprintf(thread, sizeof(thread), "%s/%d ", hit->process, hit->pid);
	size_t used = strlen(thread);
	snprintf(thread + used, sizeof(thread) - used, "%s/%d", hit->thread[0] ? hit->thread : "?",
		 hit->tid);
	run_call_text(calls, hit->call, text, sizeof(text));
	origin[0] = 0;
	if (!hit->call->printed)
		origin_text(calls, hit, origin, sizeof(origin));
	clean_text(thread);
	clean_text(text);
	run_text_time(o, hit->time_ns + info->clock_offset_ns);
	/* What follows a text of the user's is not aligned. */
	int width = hit->call->printed ? 0 : run_text_widen(&o->value_width, text, 60);
	fprintf(o->f, "  %-*s  %s%-*s%s%s%s%s\n",
		run_text_widen(&o->thread_width, thread, hit->process ? 40 : 24), thread,
		o->has_color ? "\033[1m" : "", width, text, o->has_color ? "\033[0m" : "",
		hit->call->printed ? "" : "  ", origin,
		hit->call->args_later ? "  (memory read later)" : "");
	run_text_frames(o->f, hit->frames, run_frames_shown(hit->frame_count, o->frames_max));
}
