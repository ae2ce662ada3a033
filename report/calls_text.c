// SPDX-License-Identifier: MIT
/* break_summary.c - what a run of breakpoints saw, what it could not see, and what it cost. */
#include "cli/break.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HISTOGRAMS_MAX 5
#define BAR_WIDTH 40

/* Hits by something, most first. */
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

static const struct break_site *site_at(const struct break_end *end, uint64_t address,
					const struct code_site **out)
{
	*out = code_sites_at(end->sites, address);
	return *out ? &end->site[*out - end->sites->site] : NULL;
}

static void text_durations(FILE *f, const struct break_site *b)
{
	char mean[32];
	char most[32];

	if (!b->returns) {
		fprintf(f, "%10s %10s  ", "-", "-");
		return;
	}
	break_duration(b->total_ns / b->returns, mean, sizeof(mean));
	break_duration(b->max_ns, most, sizeof(most));
	fprintf(f, "%10s %10s  ", mean, most);
}

static void text_functions(FILE *f, const struct break_end *end, const struct table *t)
{
	fprintf(f, "\n%10s %6s %8s  ", "hits", "share", "threads");
	if (end->set->ret)
		fprintf(f, "%10s %10s  ", "mean", "longest");
	fputs("where\n", f);
	for (size_t i = 0; i < t->count && i < RUN_TEXT_ROWS_MAX; i++) {
		const struct tally_sum *sum = &t->sum[i];
		const struct code_site *site;
		const struct break_site *b = site_at(end, sum->ip, &site);
		if (!b)
			continue;
		fprintf(f, "%10" PRIu64 " %5.1f%% %8zu  ", sum->hits,
			100.0 * (double)sum->hits / (double)t->total, sum->others);
		if (end->set->ret)
			text_durations(f, b);
		fprintf(f, "%s%s%s%s\n", site->name,
			site->kind == CODE_SITE_INLINED ? " [inlined]" : "",
			site->module ? " in " : "", site->module ? site->module : "");
	}
	if (t->count > RUN_TEXT_ROWS_MAX)
		fprintf(f, "%10s and %zu more\n", "", t->count - RUN_TEXT_ROWS_MAX);
}

static void text_histogram(FILE *f, const struct code_site *site,
			   const struct break_site *b)
{
	uint64_t most = 0;
	int first = BREAK_BUCKETS;
	int last = 0;

	for (int i = 0; i < BREAK_BUCKETS; i++) {
		most = b->buckets[i] > most ? b->buckets[i] : most;
		if (b->buckets[i] && first == BREAK_BUCKETS)
			first = i;
		if (b->buckets[i])
			last = i;
	}
	fprintf(f, "\n%s: %" PRIu64 " call%s returned, after\n", site->name, b->returns,
		b->returns == 1 ? "" : "s");
	for (int i = first; i <= last; i++) {
		char from[32];
		char bar[BAR_WIDTH + 1];
		/* What is there at all shows. */
		size_t len = (size_t)((b->buckets[i] * BAR_WIDTH + most - 1) / most);
		break_duration(i ? UINT64_C(1) << i : 0, from, sizeof(from));
		memset(bar, '#', len);
		bar[len] = 0;
		fprintf(f, "%10s or more %10" PRIu64 "  %s\n", from, b->buckets[i], bar);
	}
}

static void text_histograms(FILE *f, const struct break_end *end, const struct table *t)
{
	size_t shown = 0;

	for (size_t i = 0; i < t->count && shown < HISTOGRAMS_MAX; i++) {
		const struct code_site *site;
		const struct break_site *b = site_at(end, t->sum[i].ip, &site);
		if (!b || !b->returns || !b->buckets)
			continue;
		text_histogram(f, site, b);
		shown++;
	}
	uint64_t open = end->calls->not_returned + end->calls->dropped;
	if (open)
		fprintf(f, "\n%" PRIu64 " call%s had not returned\n", open,
			open == 1 ? "" : "s");
	if (end->calls->unpaired)
		fprintf(f, "%" PRIu64 " returns were of calls that were not seen\n",
			end->calls->unpaired);
}

static void text_price(FILE *f, double ns)
{
	if (ns >= 0)
		fprintf(f, ", about %.1f us a hit on this machine", ns / 1000);
}

static void text_mechanism(FILE *f, const struct break_end *end)
{
	const struct break_armed *a = end->armed;
	const char *before = "mechanism: ";

	if (a->emulated + a->stepped) {
		fprintf(f, "%suprobes and BPF at %zu place%s: ", before,
			a->emulated + a->stepped,
			a->emulated + a->stepped == 1 ? "" : "s");
		before = "; ";
	}
	if (a->emulated) {
		fprintf(f, "%zu on an instruction that the kernel emulates", a->emulated);
		text_price(f, end->emulated_ns);
	}
	if (a->stepped) {
		fprintf(f, "%s%zu single-stepped", a->emulated ? "; " : "", a->stepped);
		text_price(f, end->stepped_ns);
	}
	if (a->hardware) {
		fprintf(f, "%shardware breakpoints at %zu place%s", before, a->hardware,
			a->hardware == 1 ? "" : "s");
		text_price(f, end->hardware_ns);
	}
	fputc('\n', f);
}

static void text_limits(FILE *f, const struct break_end *end)
{
	bool stays = end->armed->emulated + end->armed->stepped > 0;

	run_text_pauses(
		f, &end->run,
		stays ? "; the breakpoints stayed in the code and calls paid for them" :
			"");
	if (end->set->ret)
		fputs("a return counts as one taken and delivered, beside its call\n", f);
	if (end->beyond)
		fprintf(f,
			"%" PRIu64
			" of those delivered came after the last that was wanted, and are "
			"not shown\n",
			end->beyond);
	if (end->sites->copies_left_out)
		fprintf(f,
			"not seen: %zu inlined copies of functions that fit (--inlined)\n",
			end->sites->copies_left_out);
	if (end->armed->refused)
		fprintf(f,
			"not seen: %zu places where the kernel takes no breakpoint: %s\n",
			end->armed->refused, end->armed->refused_names);
	fputs("not seen: objects loaded since; calls that jump past the first instruction; copies of "
	      "a function that no debug information tells of\n",
	      f);
}

static void text_summary(FILE *f, const struct break_end *end,
			 const struct table *functions, const struct table *callers,
			 const struct table *threads)
{
	char what[200];
	uint64_t total = functions->total;

	break_describe(end->sites, what, sizeof(what));
	fprintf(f, "%s%s: %" PRIu64 " hit%s in %.1f s; %s\n", total ? "\n" : "", what,
		total, total == 1 ? "" : "s", (double)end->run.duration_ns / 1e9,
		end->run.reason);
	if (end->run.command)
		fprintf(f, "command: %s\n", end->run.command);
	if (total) {
		text_functions(f, end, functions);
		if (callers->count)
			run_text_sites(f, callers->sum, callers->count, callers->total,
				       "from");
		run_text_threads(f, threads->sum, threads->count, total);
	}
	if (end->set->ret)
		text_histograms(f, end, functions);
	fputc('\n', f);
	run_text_balance(f, &end->run);
	run_text_decision(f, &(struct run_info){ .what = what }, &end->run);
	text_mechanism(f, end);
	text_limits(f, end);
}

static json_t *json_durations(const struct break_site *b)
{
	json_t *list = json_array();

	for (int i = 0; b->buckets && i < BREAK_BUCKETS; i++) {
		if (!b->buckets[i])
			continue;
		json_t *j = json_object();
		json_object_set_new(j, "from_ns",
				    json_integer(i ? (json_int_t)1 << i : 0));
		json_object_set_new(j, "calls", json_integer((json_int_t)b->buckets[i]));
		json_array_append_new(list, j);
	}
	return list;
}

static json_t *json_functions(const struct break_end *end, const struct table *t)
{
	json_t *list = json_array();

	for (size_t i = 0; i < t->count; i++) {
		const struct code_site *site;
		const struct break_site *b = site_at(end, t->sum[i].ip, &site);
		if (!b)
			continue;
		json_t *j = json_object();
		json_object_set_new(j, "ip", run_json_hex(site->address));
		json_object_set_new(j, "function", run_json_text(site->name));
		json_object_set_new(j, "module", run_json_text(site->module));
		json_object_set_new(j, "inlined",
				    json_boolean(site->kind == CODE_SITE_INLINED));
		json_object_set_new(j, "emulated", json_boolean(site->is_emulated));
		json_object_set_new(j, "hits", json_integer((json_int_t)t->sum[i].hits));
		json_object_set_new(j, "threads",
				    json_integer((json_int_t)t->sum[i].others));
		json_object_set_new(j, "returns", json_integer((json_int_t)b->returns));
		json_object_set_new(j, "total_ns", json_integer((json_int_t)b->total_ns));
		json_object_set_new(j, "max_ns", json_integer((json_int_t)b->max_ns));
		json_object_set_new(j, "durations", json_durations(b));
		json_array_append_new(list, j);
	}
	return list;
}

static json_t *json_price(double ns)
{
	return ns >= 0 ? json_integer((json_int_t)ns) : json_null();
}

static void json_mechanism(json_t *j, const struct break_end *end)
{
	const struct break_armed *a = end->armed;

	json_object_set_new(j, "sites_emulated", json_integer((json_int_t)a->emulated));
	json_object_set_new(j, "sites_stepped", json_integer((json_int_t)a->stepped));
	json_object_set_new(j, "sites_hardware", json_integer((json_int_t)a->hardware));
	json_object_set_new(j, "sites_refused", json_integer((json_int_t)a->refused));
	json_object_set_new(j, "price_emulated_ns", json_price(end->emulated_ns));
	json_object_set_new(j, "price_stepped_ns", json_price(end->stepped_ns));
	json_object_set_new(j, "price_hardware_ns", json_price(end->hardware_ns));
}

static void json_summary(struct output *o, const struct break_end *end,
			 const struct table *functions)
{
	json_t *j = json_object();
	json_t *what = json_array();

	for (size_t i = 0; i < end->set->where_count; i++)
		json_array_append_new(what, run_json_text(end->set->where[i]));
	json_object_set_new(j, "type", json_string("summary"));
	json_object_set_new(j, "what", what);
	json_object_set_new(j, "sites", json_integer((json_int_t)end->sites->count));
	json_object_set_new(j, "sites_unresolved",
			    json_integer((json_int_t)end->sites->unresolved));
	json_object_set_new(j, "inlined_left_out",
			    json_integer((json_int_t)end->sites->copies_left_out));
	json_object_set_new(j, "hits", json_integer((json_int_t)end->hits));
	json_object_set_new(j, "ended", run_json_text(end->run.reason));
	json_object_set_new(j, "command", run_json_text(end->run.command));
	run_jsonl_totals(j, &end->run);
	json_object_set_new(j, "beyond_limit", json_integer((json_int_t)end->beyond));
	json_mechanism(j, end);
	json_object_set_new(j, "not_returned",
			    json_integer((json_int_t)(end->calls->not_returned +
						      end->calls->dropped)));
	json_object_set_new(j, "unpaired_returns",
			    json_integer((json_int_t)end->calls->unpaired));
	json_object_set_new(j, "functions", json_functions(end, functions));
	json_object_set_new(j, "callers", run_jsonl_sites(end->callers));
	json_object_set_new(j, "threads", run_jsonl_threads(end->functions));
	run_jsonl_line(o->json, j);
}

void break_summary(struct break_output *o, const struct break_end *end)
{
	struct table functions = table_make(end->functions, false);
	struct table callers = table_make(end->callers, false);
	struct table threads = table_make(end->functions, true);

	output_clear_status(&o->to);
	if (o->to.text.f)
		text_summary(o->to.text.f, end, &functions, &callers, &threads);
	if (o->to.json)
		json_summary(&o->to, end, &functions);
	free(threads.sum);
	free(callers.sum);
	free(functions.sum);
}
