/* SPDX-License-Identifier: MIT */
/*
 * summary_text.c - the summary of a run for people.
 *
 * When all is well it is one line and the tables. Further lines appear only for what a reader must
 * know to trust the numbers: hits that were lost, rejected or not seen, pauses, and a high cost.
 */
#include "report/plural.h"
#include "report/run/groups.h"
#include "report/run/run_text.h"
#include "report/run/run_watch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COST_SHARE_MIN 0.01 /* of one CPU's time: less is not felt */

/* The meaning of the names in struct run_end. */
static const struct explained {
	const char *name;
	const char *text;
} mechanisms[] = {
	{ "signal", "a signal in the thread" },
	{ "bpf", "BPF records, with the values at the hit" },
	{ "ring", "the kernel's ring of records; values are read after the hit" },
}, evaluators[] = {
	{ "kernel", "in the kernel: a rejected hit has no other effect" },
	{ "code", "in machine code at the probe, which counts no rejected hit" },
	{ "handler", "in the signal handler: a rejected hit costs a signal" },
	{ "reader", "by trapline, on values read after the hit: a rejected hit costs a record" },
};

static const char *summary_explain(const struct explained *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i].name, name))
			return list[i].text;
	return name;
}

static uint64_t counts_sum(const struct run_end *end, bool is_lost)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < end->count_count; i++)
		if (end->counts[i].is_lost == is_lost)
			sum += end->counts[i].value;
	return sum;
}

static uint64_t count_of(const struct run_end *end, const char *name)
{
	for (size_t i = 0; i < end->count_count; i++)
		if (!strcmp(end->counts[i].name, name))
			return end->counts[i].value;
	return 0;
}

static uint64_t lost(const struct run_end *end)
{
	return counts_sum(end, true) + end->unread;
}

/* " (limit 3, duplicate 1)", or nothing. */
static void print_named(FILE *f, const struct run_end *end, bool is_lost)
{
	const char *before = " (";

	for (size_t i = 0; i < end->count_count; i++) {
		const struct run_count *c = &end->counts[i];
		if (c->is_lost != is_lost || !c->value)
			continue;
		fprintf(f, "%s%s %" PRIu64, before, c->name, c->value);
		before = ", ";
	}
	if (*before == ',')
		fputc(')', f);
}

/* A part of -v: the equation of the counters. */
static void balance_text(FILE *f, const struct run_end *end)
{
	fprintf(f, "taken %" PRIu64 " = rejected %" PRIu64, end->taken, counts_sum(end, false));
	print_named(f, end, false);
	fprintf(f, " + delivered %" PRIu64 " + lost %" PRIu64, end->delivered,
		counts_sum(end, true));
	print_named(f, end, true);
	if (end->unread)
		fprintf(f, " + unread %" PRIu64, end->unread);
	fputc('\n', f);
}

static double observed_percent(const struct run_end *end)
{
	uint64_t rested = end->rested_ns < end->duration_ns ? end->rested_ns : end->duration_ns;

	return end->duration_ns ?
		       100.0 * (double)(end->duration_ns - rested) / (double)end->duration_ns :
		       0;
}

static double paused_percent(const struct run_end *end)
{
	return end->duration_ns ? 100.0 * (double)end->paused_ns / (double)end->duration_ns : 0;
}

/* True if the user did not ask for this end, as by a limit, a time or Ctrl-C. */
static bool is_news(const char *reason)
{
	static const char *const asked[] = { RUN_ENDED_LIMIT, RUN_ENDED_TIME, RUN_ENDED_SIGNAL };

	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
		if (!strcmp(reason, asked[i]))
			return false;
	return true;
}

void run_text_headline(struct run_text *o, uint64_t hits, const struct run_end *end)
{
	FILE *f = o->f;

	fprintf(f, "%s%s%" PRIu64 " hit%s in %.1f s%s", hits ? "\n" : "",
		o->has_color ? "\033[1m" : "", hits, plural(hits), (double)end->duration_ns / 1e9,
		o->has_color ? "\033[0m" : "");
	if (lost(end))
		fprintf(f, ", %" PRIu64 " lost", lost(end));
	if (end->pauses)
		fprintf(f, ", paused for %.0f%% of the time", paused_percent(end));
	if (end->rests)
		fprintf(f, ", observed %.0f%% of the time", observed_percent(end));
	if (hits && !lost(end) && !end->pauses && !end->rests &&
	    strcmp(end->reason, RUN_ENDED_OUTPUT) != 0)
		fputs(", none lost", f);
	if (end->is_stopped)
		fputs("; the process is stopped", f);
	if (is_news(end->reason))
		fprintf(f, "; %s", end->reason);
	fputc('\n', f);
	if (end->command)
		fprintf(f, "command: %s\n", end->command);
}

void run_text_sites(const struct run_text *o, const struct tally_sum *sums, size_t n,
		    uint64_t total, const char *title)
{
	size_t rows = run_text_rows(o);
	FILE *f = o->f;

	fprintf(f, "\n%10s %6s %8s  %s\n", "hits", "share", "threads", title);
	for (size_t i = 0; i < n && i < rows; i++) {
		const struct tally_sum *sum = &sums[i];
		const struct place *p = &sum->place;
		char site[400];
		run_place_text_with_line(p, sum->ip, site, sizeof(site));
		fprintf(f, "%10" PRIu64 " %5.1f%% %8zu  %s%s%s\n", sum->hits,
			100.0 * (double)sum->hits / (double)total, sum->others, site,
			p->function && p->module ? " in " : "",
			p->function && p->module ? p->module : "");
	}
	if (n > rows)
		fprintf(f, "%10s and %zu more sites\n", "", n - rows);
}

/* Threads have a column of the sites too, processes do not. */
static void text_numbered(const struct run_text *o, const struct tally_sum *sums, size_t n,
			  uint64_t total, const char *one, const char *many, bool has_sites)
{
	size_t rows = run_text_rows(o);
	FILE *f = o->f;

	fprintf(f, "\n%10s %6s%s  %s\n", "hits", "share", has_sites ? "    sites" : "", one);
	for (size_t i = 0; i < n && i < rows; i++) {
		const struct tally_sum *sum = &sums[i];
		fprintf(f, "%10" PRIu64 " %5.1f%% ", sum->hits,
			100.0 * (double)sum->hits / (double)total);
		if (has_sites)
			fprintf(f, "%8zu ", sum->others);
		if (sum->tid)
			fprintf(f, " %s/%d\n", sum->thread[0] ? sum->thread : "?", sum->tid);
		else
			fprintf(f, " (more %s)\n", many);
	}
	if (n > rows)
		fprintf(f, "%10s and %zu more %s\n", "", n - rows, many);
}

void run_text_threads(const struct run_text *o, const struct tally_sum *sums, size_t n,
		      uint64_t total)
{
	text_numbered(o, sums, n, total, "thread", "threads", true);
}

void run_text_processes(const struct run_text *o, const struct tally_sum *sums, size_t n,
			uint64_t total)
{
	text_numbered(o, sums, n, total, "process", "processes", false);
}

static uint64_t print_tally(struct run_text *o, const struct run_end *end,
			    const struct tally *tally)
{
	size_t site_count;
	size_t thread_count;
	struct tally_sum *sites = tally_sums(tally, false, &site_count);
	struct tally_sum *threads = tally_sums(tally, true, &thread_count);
	uint64_t total = 0;

	for (size_t i = 0; i < site_count; i++)
		total += sites[i].hits;
	run_text_headline(o, total, end);
	if (end->groups) {
		run_groups_text(o, end->groups);
	} else if (total) {
		run_text_sites(o, sites, site_count, total, "where");
		run_text_threads(o, threads, thread_count, total);
	}
	free(sites);
	free(threads);
	return total;
}

void run_text_evaluation(FILE *f, const struct run_end *end)
{
	if (end->evaluated_in)
		fprintf(f, "the condition was evaluated %s\n",
			summary_explain(evaluators, sizeof(evaluators) / sizeof(*evaluators),
					end->evaluated_in));
}

/* The share of one CPU's time that all hits took, with the rejected ones. */
static double cost_share(const struct run_end *end, double cost_ns)
{
	double hits = (double)(end->taken + end->while_off);

	return cost_ns > 0 && end->duration_ns ? cost_ns * hits / (double)end->duration_ns : 0;
}

static void print_share(FILE *f, double share)
{
	fprintf(f, share < 0.0995 ? "%.1f%% of one CPU\n" : "%.0f%% of one CPU\n", 100 * share);
}

/* A condition that is seldom true can cost the target much time without any hit. */
static void print_rejected(FILE *f, const struct run_info *info, const struct run_end *end,
			   double cost_ns)
{
	uint64_t rejected = count_of(end, "condition");
	double share = cost_share(end, cost_ns);

	if (rejected)
		fprintf(f, "%s rejected %" PRIu64 " of %" PRIu64 " hits",
			info->is_bit_field ? "the condition" : "--if", rejected, end->taken);
	if (rejected && share >= COST_SHARE_MIN)
		fprintf(f, "; each hit cost the target up to %.1f us, in all ", cost_ns / 1000);
	else if (share >= COST_SHARE_MIN)
		fprintf(f, "a hit cost the target about %.1f us, in all ", cost_ns / 1000);
	if (share >= COST_SHARE_MIN)
		print_share(f, share);
	else if (rejected)
		fputc('\n', f);
	if (end->condition_faults)
		fprintf(f,
			"%" PRIu64 " of them because the condition could not be evaluated: "
			"unreadable memory, or a division by 0\n",
			end->condition_faults);
	if (rejected && info->is_bit_field)
		fputs("a bit-field: rejected hits include writes that changed only other bits of its "
		      "bytes\n",
		      f);
}

static void text_rests(FILE *f, const struct run_end *end)
{
	if (!end->rests)
		return;
	fprintf(f,
		"rested %" PRIu64
		" time%s, %.1f s of %.1f s, so that hits cost at most %g%% of a CPU; "
		"hits in a rest were not seen (--budget none: no rests)\n",
		end->rests, plural(end->rests), (double)end->rested_ns / 1e9,
		(double)end->duration_ns / 1e9, (double)end->budget_ppm / 10000);
}

void run_text_pauses(FILE *f, const struct run_end *end, const char *more)
{
	text_rests(f, end);
	if (end->not_printed)
		fprintf(f,
			"%" PRIu64
			" of the hits were only counted: a terminal gets at most %" PRIu64
			" lines a second (--max-rate 0 prints all)\n",
			end->not_printed, end->lines_per_second);
	if (!end->pauses)
		return;
	fprintf(f,
		"paused %" PRIu64 " time%s, %.1f s of %.1f s, to stay below %" PRIu64
		" hits a second; hits in a pause were not seen%s (--max-rate 0: no pauses)\n",
		end->pauses, plural(end->pauses), (double)end->paused_ns / 1e9,
		(double)end->duration_ns / 1e9, end->max_rate, more);
}

void run_text_exceptions(struct run_text *o, const struct run_info *info, const struct run_end *end,
			 double cost_ns)
{
	if (o->is_verbose || lost(end))
		balance_text(o->f, end);
	print_rejected(o->f, info, end, cost_ns);
}

void run_text_not_seen(FILE *f, const struct run_end *end)
{
	const char *by_calls = end->sees_kernel ? "" : "a system call (--kernel reports those), ";

	if (end->unseen_changes)
		fprintf(f,
			"not seen: the value changed at least %" PRIu64 " time%s without a hit, by "
			"%sDMA, another process or another mapping\n",
			end->unseen_changes, plural(end->unseen_changes), by_calls);
	else
		fprintf(f,
			"not seen: an access by %sDMA, another process or another mapping of the "
			"same memory\n",
			by_calls);
}

void run_text_more_begin(struct run_text *more, const struct run_text *o, struct run_lines *lines)
{
	*more = *o;
	*lines = (struct run_lines){ 0 };
	more->f = open_memstream(&lines->text, &lines->size);
	if (!more->f)
		more->f = o->f;
}

void run_text_more_end(struct run_text *more, const struct run_text *o, struct run_lines *lines,
		       bool has_tables)
{
	if (more->f == o->f)
		return;
	if (!fclose(more->f) && lines->size)
		fprintf(o->f, "%s%s", has_tables ? "\n" : "", lines->text);
	free(lines->text);
}

static void summary_print_bookkeeping(FILE *f, const struct run_end *end)
{
	if (count_of(end, "partial"))
		fputs("partial: pieces of what the kernel copied; a whole copy is one hit\n", f);
	run_text_evaluation(f, end);
	fprintf(f, "mechanism: %s", summary_explain(mechanisms, 3, end->mechanism));
	if (end->cost_ns >= 0)
		fprintf(f, "; a hit costs the target about %.1f us on this machine",
			end->cost_ns / 1000);
	fprintf(f, "\nended: %s\n", end->reason);
}

void run_text_end(struct run_text *o, const struct run_info *info, const struct run_end *end,
		  const struct tally *tally)
{
	uint64_t hits = print_tally(o, end, tally);
	struct run_lines lines;
	struct run_text more;

	run_text_more_begin(&more, o, &lines);
	run_text_exceptions(&more, info, end, end->cost_ns);
	if (o->is_verbose)
		summary_print_bookkeeping(more.f, end);
	run_text_pauses(more.f, end, "");
	if (o->is_verbose || end->unseen_changes || !end->taken)
		run_text_not_seen(more.f, end);
	run_text_watch_end(more.f, end);
	run_text_more_end(&more, o, &lines, hits != 0);
}
