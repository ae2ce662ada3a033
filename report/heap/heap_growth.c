/* SPDX-License-Identifier: MIT */
/* heap_growth.c - see heap_growth.h: the rows, and their text, JSON and folded stacks. */
#include "report/heap/heap_growth_priv.h"

#include "base/atomic.h"
#include "report/plural.h"
#include "report/run/run_text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIGMAS 1.96
#define TEXT_ROWS 20u
#define THIRDS 3.0

int heap_growth_format(const char *name, enum heap_growth_format *out)
{
	static const char *const names[] = { "text", "folded", "pprof" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i])) {
			*out = (enum heap_growth_format)i;
			return 0;
		}
	return -EINVAL;
}

double heap_growth_error(double variance)
{
	return SIGMAS * sqrt(variance);
}

/* ---- rows ---- */

static void add_row(struct heap_growth_row *to, const struct heap_growth_row *row)
{
	to->sampled += row->sampled;
	to->blocks += row->blocks;
	to->bytes += row->bytes;
	to->grown += row->grown;
	to->variance += row->variance;
	to->grown_variance += row->grown_variance;
	if (row->youngest_ns < to->youngest_ns)
		to->youngest_ns = row->youngest_ns;
	if (row->oldest_ns > to->oldest_ns)
		to->oldest_ns = row->oldest_ns;
	if (row->run_ns > to->run_ns)
		to->run_ns = row->run_ns;
}

static bool is_same_stack(const struct heap_moment *a, const struct heap_moment *b)
{
	return a->frame_count == b->frame_count &&
	       !memcmp(a->frames, b->frames, a->frame_count * sizeof(a->frames[0]));
}

static void take_row(struct heap_growth *g, const struct heap_growth_row *row)
{
	for (size_t i = 0; i < g->count; i++)
		if (is_same_stack(&g->rows[i].alloc, &row->alloc)) {
			add_row(&g->rows[i], row);
			return;
		}
	g->rows[g->count++] = *row;
}

static int larger_first(const void *a, const void *b)
{
	const struct heap_growth_row *x = a;
	const struct heap_growth_row *y = b;

	return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

/*
 * While samples are rare, those that are missing leave no trace in the sums: one more, of the mean
 * weight of the run, stands for them. Large blocks alone are exact.
 */
static void widen(struct heap_growth_row *row, double weight)
{
	const double bytes = row->blocks ? (double)row->bytes / (double)row->blocks : 0;
	const double one = weight * bytes * weight * bytes;

	if (row->variance <= 0)
		return;
	row->variance += one;
	row->grown_variance += one;
}

/* The mean of all allocations: where few were drawn, their weights are large. */
static double mean_weight(const struct heap_region *region)
{
	const uint64_t calls = counter_get(&region->growth_calls);

	return calls ? (double)counter_get(&region->growth_weights) / (double)calls : 0;
}

/* What is in the region may be anything: the target can write there. */
static int read_rows(const struct heap_region *region, struct heap_growth *g)
{
	*g = (struct heap_growth){ .rows = calloc(HEAP_GROWTH_ROWS, sizeof(*g->rows)) };
	if (!g->rows)
		return -ENOMEM;
	g->all.youngest_ns = UINT64_MAX;
	for (size_t i = 0; i < HEAP_GROWTH_ROWS; i++) {
		struct heap_growth_row row = region->growth[i];

		if (!row.ready)
			continue;
		if (row.alloc.frame_count > HEAP_FRAMES)
			row.alloc.frame_count = HEAP_FRAMES;
		if (!isfinite(row.variance) || row.variance < 0)
			row.variance = 0;
		if (!isfinite(row.grown_variance) || row.grown_variance < 0)
			row.grown_variance = 0;
		add_row(&g->all, &row);
		take_row(g, &row);
	}
	for (size_t i = 0; i < g->count; i++)
		widen(&g->rows[i], mean_weight(region));
	widen(&g->all, mean_weight(region));
	qsort(g->rows, g->count, sizeof(*g->rows), larger_first);
	return 0;
}

int heap_growth_print(struct heap_report *r, const struct heap_region *region,
		      enum heap_growth_format format, FILE *f)
{
	struct heap_growth g;
	int err = read_rows(region, &g);

	if (err)
		return err;
	if (format == HEAP_GROWTH_TEXT)
		heap_growth_text(r, &g, f);
	else if (format == HEAP_GROWTH_JSON)
		heap_growth_json(r, &g, f);
	else if (format == HEAP_GROWTH_FOLDED)
		heap_growth_folded(r, &g, f);
	else
		err = heap_growth_pprof(r, &g, f);
	free(g.rows);
	return err;
}

/* ---- text ---- */

static void put_bytes(double bytes, FILE *f)
{
	static const char *const units[] = { "byte", "KiB", "MiB", "GiB", "TiB" };
	size_t i = 0;

	for (; bytes >= 1024 && i < 4; i++)
		bytes /= 1024;
	fprintf(f, i ? "%.1f %s" : "%.0f %s", bytes, units[i]);
	if (!i && (uint64_t)bytes != 1)
		fputc('s', f);
}

static void put_estimate(double bytes, double variance, FILE *f)
{
	put_bytes(bytes, f);
	fputs(" +- ", f);
	put_bytes(heap_growth_error(variance), f);
}

static double third_s(const struct heap_growth_row *row)
{
	return row->run_ns ? (double)row->run_ns / THIRDS / 1e9 : 1;
}

static void put_slope(const struct heap_growth_row *row, FILE *f)
{
	const double s = third_s(row);

	if (!row->grown) {
		fputs(", does not grow", f);
		return;
	}
	fputs(", grows by ", f);
	put_estimate((double)row->grown / s, row->grown_variance / s / s, f);
	fputs(" a second", f);
}

static void put_row(struct heap_report *r, const struct heap_growth_row *row, double all, FILE *f)
{
	struct run_frame frames[HEAP_STACK_MAX];
	const size_t n = heap_report_frames(r, &row->alloc, false, frames);

	put_estimate((double)row->bytes, row->variance, f);
	fprintf(f, " (%.1f%%)", all > 0 ? 100 * (double)row->bytes / all : 0);
	put_slope(row, f);
	fprintf(f, "; %" PRIu64 " block%s, %.1f to %.1f s old, %" PRIu64 " sampled%s\n",
		row->blocks, plural(row->blocks), (double)row->youngest_ns / 1e9,
		(double)row->oldest_ns / 1e9, row->sampled, n ? ":" : ", stack not recorded");
	run_text_frames(f, frames, n);
}

void heap_growth_text(struct heap_report *r, const struct heap_growth *g, FILE *f)
{
	fputs("in use at the end: ", f);
	put_estimate((double)g->all.bytes, g->all.variance, f);
	fprintf(f, ", by %zu stack%s", g->count, plural(g->count));
	put_slope(&g->all, f);
	fputc('\n', f);
	for (size_t i = 0; i < g->count && i < TEXT_ROWS; i++)
		put_row(r, &g->rows[i], (double)g->all.bytes, f);
	if (g->count > TEXT_ROWS)
		fprintf(f, "%zu more stacks: --json, or --growth-format\n", g->count - TEXT_ROWS);
	fputc('\n', f);
}

/* ---- JSON ---- */

void heap_growth_json(struct heap_report *r, const struct heap_growth *g, FILE *f)
{
	for (size_t i = 0; i < g->count; i++) {
		const struct heap_growth_row *row = &g->rows[i];
		const double s = third_s(row);
		struct run_frame frames[HEAP_STACK_MAX];
		const size_t n = heap_report_frames(r, &row->alloc, false, frames);
		json_t *j = json_object();

		json_object_set_new(j, "type", json_string("growth"));
		json_object_set_new(j, "bytes", run_json_count(row->bytes));
		json_object_set_new(j, "bytes_error",
				    json_real(round(heap_growth_error(row->variance))));
		json_object_set_new(j, "blocks", run_json_count(row->blocks));
		json_object_set_new(j, "sampled", run_json_count(row->sampled));
		json_object_set_new(j, "bytes_per_s", json_real(round((double)row->grown / s)));
		json_object_set_new(j, "bytes_per_s_error",
				    json_real(round(heap_growth_error(row->grown_variance) / s)));
		json_object_set_new(j, "youngest_ns", run_json_count(row->youngest_ns));
		json_object_set_new(j, "oldest_ns", run_json_count(row->oldest_ns));
		json_object_set_new(j, "stack", run_jsonl_frames(frames, n));
		run_jsonl_line(f, j);
	}
}

/* ---- folded ---- */

void heap_growth_folded(struct heap_report *r, const struct heap_growth *g, FILE *f)
{
	for (size_t i = 0; i < g->count; i++) {
		struct run_frame frames[HEAP_STACK_MAX];
		size_t n = heap_report_frames(r, &g->rows[i].alloc, false, frames);

		fputs("in use", f);
		for (; n > 0; n--)
			run_folded_frame(f, &frames[n - 1]);
		fprintf(f, " %" PRIu64 "\n", g->rows[i].bytes);
	}
}
