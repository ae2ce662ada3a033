// SPDX-License-Identifier: MIT
/* watch_summary.c - what a run saw, what it could not see, and what it cost. */
#include "cli/condition.h"
#include "cli/watch.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 20 /* in text; JSON has all */

static const char *const mechanism_names[] = { "signal", "bpf", "ring" };
static const char *const mechanism_texts[] = {
	"a signal in the thread",
	"BPF records, values read at the hit",
	"the kernel's ring of records, values read later",
};

static const char *const decided_names[] = { NULL, "kernel", "handler", "reader" };

/* The named parts of struct trapline_stats: one table for text and JSON. */
static const struct count_name {
	const char *name;
	size_t offset;
	bool lost;
} count_names[] = {
	{ "limit", offsetof(struct trapline_stats, rejected_limit), false },
	{ "duplicate", offsetof(struct trapline_stats, rejected_duplicate), false },
	{ "condition", offsetof(struct trapline_stats, rejected_condition), false },
	{ "nested", offsetof(struct trapline_stats, lost_nested), true },
	{ "late", offsetof(struct trapline_stats, lost_late), true },
	{ "merged", offsetof(struct trapline_stats, lost_merged), true },
	{ "ring_full", offsetof(struct trapline_stats, lost_ring_full), true },
	{ "kernel", offsetof(struct trapline_stats, lost_kernel), true },
};

#define COUNT_NAMES (sizeof(count_names) / sizeof(count_names[0]))

static uint64_t count_get(const struct trapline_stats *st, const struct count_name *c)
{
	return *(const uint64_t *)((const char *)st + c->offset);
}

static uint64_t count_sum(const struct trapline_stats *st, bool lost)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < COUNT_NAMES; i++)
		if (count_names[i].lost == lost)
			sum += count_get(st, &count_names[i]);
	return sum;
}

/* " (limit 3, duplicate 1)", or nothing. */
static void text_named(FILE *f, const struct trapline_stats *st, bool lost)
{
	const char *before = " (";

	for (size_t i = 0; i < COUNT_NAMES; i++) {
		uint64_t n = count_get(st, &count_names[i]);
		if (count_names[i].lost != lost || !n)
			continue;
		fprintf(f, "%s%s %" PRIu64, before, count_names[i].name, n);
		before = ", ";
	}
	if (*before == ',')
		fputc(')', f);
}

static void text_balance(FILE *f, const struct trapline_stats *st)
{
	fprintf(f, "taken %" PRIu64 " = rejected %" PRIu64, st->taken, count_sum(st, false));
	text_named(f, st, false);
	fprintf(f, " + delivered %" PRIu64 " + lost %" PRIu64, st->delivered, count_sum(st, true));
	text_named(f, st, true);
	if (st->unread)
		fprintf(f, " + unread %" PRIu64, st->unread);
	fputc('\n', f);
}

static void text_sites(FILE *f, struct symbols *s, const struct tally_sum *sums, size_t n,
		       uint64_t total)
{
	fprintf(f, "\n%10s %6s %8s  %s\n", "hits", "share", "threads", "where");
	for (size_t i = 0; i < n && i < ROWS_MAX; i++) {
		const struct tally_sum *sum = &sums[i];
		struct place p;
		char name[300];
		watch_place(s, sum->ip, sum->after, &p);
		watch_format_place(&p, sum->ip, name, sizeof(name));
		fprintf(f, "%10" PRIu64 " %5.1f%% %8zu  %s", sum->hits,
			100.0 * (double)sum->hits / (double)total, sum->threads, name);
		if (p.file)
			fprintf(f, " (%s:%d)", watch_base_name(p.file), p.line);
		if (p.function && p.module)
			fprintf(f, " in %s", p.module);
		fputc('\n', f);
	}
	if (n > ROWS_MAX)
		fprintf(f, "%10s and %zu more places\n", "", n - ROWS_MAX);
}

static void text_threads(FILE *f, const struct tally_sum *sums, size_t n, uint64_t total)
{
	fprintf(f, "\n%10s %6s %8s  %s\n", "hits", "share", "places", "thread");
	for (size_t i = 0; i < n && i < ROWS_MAX; i++) {
		const struct tally_sum *sum = &sums[i];
		fprintf(f, "%10" PRIu64 " %5.1f%% %8zu  ", sum->hits,
			100.0 * (double)sum->hits / (double)total, sum->threads);
		if (sum->tid)
			fprintf(f, "%s/%d\n", sum->thread[0] ? sum->thread : "?", sum->tid);
		else
			fputs("(further threads)\n", f);
	}
	if (n > ROWS_MAX)
		fprintf(f, "%10s and %zu more threads\n", "", n - ROWS_MAX);
}

static void text_price(FILE *f, const struct watch_end *end)
{
	fprintf(f, "mechanism: %s", mechanism_texts[end->mechanism % 3]);
	if (end->price_ns >= 0)
		fprintf(f, "; a hit costs the target about %.1f us on this machine",
			end->price_ns / 1000);
	fputc('\n', f);
}

static void text_summary(FILE *f, struct symbols *s, const struct watch_end *end,
			 const struct tally_sum *sites, size_t site_count,
			 const struct tally_sum *threads, size_t thread_count)
{
	double seconds = (double)end->duration_ns / 1e9;
	uint64_t total = 0;

	for (size_t i = 0; i < site_count; i++)
		total += sites[i].hits;
	fprintf(f, "%s%s: %" PRIu64 " hit%s in %.1f s; %s\n", total ? "\n" : "",
		end->what->name, total, total == 1 ? "" : "s", seconds, end->reason);
	if (end->command[0])
		fprintf(f, "command: %s\n", end->command);
	if (total) {
		text_sites(f, s, sites, site_count, total);
		text_threads(f, threads, thread_count, total);
	}
	fputc('\n', f);
	text_balance(f, &end->stats);
	if (end->stats.decided_in)
		cli_condition_summary(f, &end->stats);
	if (end->what->view.bit_size)
		fputs("a bit-field: writes that changed other bits of the same bytes only are among "
		      "those rejected by condition\n", f);
	text_price(f, end);
	if (end->pace->pauses)
		fprintf(f, "paused %" PRIu64 " time%s, %.1f s of %.1f s (%.0f%%), to stay under %" PRIu64
			" hits a second: hits in the pauses were not seen (--max-rate 0: no pauses)\n",
			end->pace->pauses, end->pace->pauses == 1 ? "" : "s",
			(double)end->pace->paused_ns / 1e9, seconds,
			100.0 * (double)end->pace->paused_ns / (double)end->duration_ns,
			end->max_rate);
	fputs("not seen: accesses made by system calls, by DMA or through another mapping of the "
	      "same memory\n", f);
}

static json_t *json_counts(const struct trapline_stats *st, bool lost)
{
	json_t *j = json_object();

	for (size_t i = 0; i < COUNT_NAMES; i++)
		if (count_names[i].lost == lost)
			json_object_set_new(j, count_names[i].name,
					    json_integer((json_int_t)count_get(st, &count_names[i])));
	return j;
}

static json_t *json_or_null(const char *text)
{
	json_t *j = text ? json_string(text) : NULL;

	return j ? j : json_null();
}

static json_t *json_sites(struct symbols *s, const struct tally_sum *sums, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		struct place p;
		char ip[24];
		watch_place(s, sums[i].ip, sums[i].after, &p);
		snprintf(ip, sizeof(ip), "0x%" PRIx64, sums[i].ip);
		json_t *j = json_object();
		json_object_set_new(j, "ip", json_string(ip));
		json_object_set_new(j, "function", json_or_null(p.function));
		json_object_set_new(j, "offset", p.function ? json_integer((json_int_t)p.offset) :
							      json_null());
		json_object_set_new(j, "module", json_or_null(p.module));
		json_object_set_new(j, "file", json_or_null(p.file));
		json_object_set_new(j, "line", p.line ? json_integer(p.line) : json_null());
		json_object_set_new(j, "hits", json_integer((json_int_t)sums[i].hits));
		json_object_set_new(j, "threads", json_integer((json_int_t)sums[i].threads));
		json_array_append_new(list, j);
	}
	return list;
}

static json_t *json_threads(const struct tally_sum *sums, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *j = json_object();
		json_object_set_new(j, "tid", json_integer(sums[i].tid));
		json_object_set_new(j, "thread", json_or_null(sums[i].thread));
		json_object_set_new(j, "hits", json_integer((json_int_t)sums[i].hits));
		json_object_set_new(j, "sites", json_integer((json_int_t)sums[i].threads));
		json_array_append_new(list, j);
	}
	return list;
}

static void json_totals(json_t *j, const struct watch_end *end)
{
	const struct trapline_stats *st = &end->stats;

	json_object_set_new(j, "taken", json_integer((json_int_t)st->taken));
	json_object_set_new(j, "rejected", json_integer((json_int_t)count_sum(st, false)));
	json_object_set_new(j, "rejected_by", json_counts(st, false));
	json_object_set_new(j, "condition_faults",
			    json_integer((json_int_t)st->condition_faults));
	json_object_set_new(j, "decided_in", json_or_null(decided_names[st->decided_in % 4]));
	json_object_set_new(j, "delivered", json_integer((json_int_t)st->delivered));
	json_object_set_new(j, "lost", json_counts(st, true));
	json_object_set_new(j, "unread", json_integer((json_int_t)st->unread));
	json_object_set_new(j, "mechanism", json_string(mechanism_names[end->mechanism % 3]));
	json_object_set_new(j, "price_ns", end->price_ns >= 0 ?
			    json_integer((json_int_t)end->price_ns) : json_null());
	json_object_set_new(j, "duration_ns", json_integer((json_int_t)end->duration_ns));
	json_object_set_new(j, "pauses", json_integer((json_int_t)end->pace->pauses));
	json_object_set_new(j, "paused_ns", json_integer((json_int_t)end->pace->paused_ns));
}

static void json_summary(FILE *f, struct symbols *s, const struct watch_end *end,
			 const struct tally_sum *sites, size_t site_count,
			 const struct tally_sum *threads, size_t thread_count)
{
	json_t *j = json_object();
	char address[24];

	snprintf(address, sizeof(address), "0x%" PRIx64, end->what->address);
	json_object_set_new(j, "type", json_string("summary"));
	json_object_set_new(j, "what", json_or_null(end->what->name));
	json_object_set_new(j, "address", json_string(address));
	json_object_set_new(j, "len", json_integer((json_int_t)end->what->len));
	json_object_set_new(j, "value_type", json_or_null(end->what->view.type ?
							  end->what->view.type->name : NULL));
	json_object_set_new(j, "ended", json_or_null(end->reason));
	json_object_set_new(j, "command", end->command[0] ? json_or_null(end->command) :
							    json_null());
	json_totals(j, end);
	json_object_set_new(j, "sites", json_sites(s, sites, site_count));
	json_object_set_new(j, "threads", json_threads(threads, thread_count));
	json_dumpf(j, f, JSON_COMPACT);
	fputc('\n', f);
	json_decref(j);
}

void watch_summary(struct watch_output *o, struct symbols *s, const struct watch_tally *t,
		   const struct watch_end *end)
{
	size_t n;
	size_t site_count;
	size_t thread_count;
	struct tally_pair *pairs = watch_tally_pairs(t, &n);
	struct tally_sum *sites = watch_tally_sums(pairs, n, false, &site_count);
	struct tally_sum *threads = watch_tally_sums(pairs, n, true, &thread_count);

	watch_output_clear_status(o);
	if (o->text)
		text_summary(o->text, s, end, sites, site_count, threads, thread_count);
	if (o->json)
		json_summary(o->json, s, end, sites, site_count, threads, thread_count);
	free(threads);
	free(sites);
	free(pairs);
}
