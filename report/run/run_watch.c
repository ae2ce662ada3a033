/* SPDX-License-Identifier: MIT */
/* run_watch.c - see run_watch.h. */
#include "report/run/run_watch.h"
#include "report/plural.h"

#include <inttypes.h>

static double share_of(uint64_t part, uint64_t whole)
{
	double share = whole ? (double)part / (double)whole : 0;

	return share < 1 ? share : 1;
}

static void print_if(FILE *f, uint64_t n, const char *text)
{
	if (n)
		fprintf(f, "%" PRIu64 " %s\n", n, text);
}

static void text_objects(FILE *f, const struct run_objects *o)
{
	fprintf(f,
		"%s: %" PRIu64 " seen at %s, %" PRIu64 " watched, %" PRIu64 " not watched (%" PRIu64
		" debug register%s); %" PRIu64 " ended, %" PRIu64
		" of them still exist; %s that began earlier are not seen\n",
		o->is_frame ? "frames" : "objects", o->seen, o->at, o->watched,
		o->seen > o->watched ? o->seen - o->watched : 0, o->registers, plural(o->registers),
		o->ended + o->unmapped, o->alive, o->is_frame ? "frames" : "objects");
	if (o->life_ns)
		fprintf(f, "they were watched for %.1f%% of their lifetimes%s\n",
			100 * share_of(o->watched_ns, o->life_ns),
			o->until || o->is_frame ?
				"" :
				"; without --until an object ends only when its memory is unmapped");
	if (o->stalled)
		fprintf(f,
			"%" PRIu64
			" of them were armed while their thread was stalled: that was so in %" PRIu64
			" calls, for %.0f us each\n",
			o->in_time, o->stalled, (double)o->stalled_ns / (double)o->stalled / 1e3);
	if (o->delays)
		fprintf(f,
			"armed %.0f us after %s %s (median; longest %.0f us); earlier accesses to %s "
			"were not seen\n",
			(double)o->delay_median_ns / 1e3, o->function,
			o->is_return ? "returned" : "was entered", (double)o->delay_max_ns / 1e3,
			o->stalled  ? "those whose thread was not stalled" :
			o->is_frame ? "a frame" :
				      "an object");
	print_if(f, o->too_late, "ended before they were armed");
	print_if(f, o->nothing, "calls had a null pointer instead of an object");
	print_if(f, o->no_place, "could not be watched: a null pointer on the path, or alignment");
	print_if(f, o->untracked, "were not tracked: too many at a time");
	print_if(f, o->calls_lost,
		 "calls were lost: their objects, or the ends of objects, are not known");
	print_if(
		f, o->doubtful,
		"hits rejected: a longjmp, an exception or the end of a thread may have ended the frame");
	print_if(f, o->after_end,
		 o->is_frame ? "hits rejected: the frame had ended and its memory was used again" :
			       "hits rejected: the object had ended and its memory was used again");
}

static void text_slices(FILE *f, const struct run_multiplex *t)
{
	fprintf(f, "\n%10s %8s  expression\n", "hits", "watched");
	for (size_t i = 0; i < t->expr_count; i++) {
		const struct run_multiplex_expr *p = &t->expr[i];
		fprintf(f, "%10" PRIu64 " %7.1f%%  %s, %" PRIu64 " byte%s", p->hits,
			100 * share_of(p->watched_ns, t->duration_ns), p->name, p->len,
			plural(p->len));
		if (p->chunks > 1)
			fprintf(f, " in %" PRIu64 " chunks", p->chunks);
		fputc('\n', f);
	}
	print_if(f, t->unplaced, "hits rejected: the address is outside of all expressions");
	if (t->chunks == t->registers)
		return;
	fprintf(f,
		"multiplexed: %" PRIu64 " chunks shared %" PRIu64 " debug register%s, %" PRIu64
		" time slices of %.0f ms, %.2f%% of the time spent on switching; hits outside the "
		"slices of a chunk were missed\n",
		t->chunks, t->registers, plural(t->registers), t->slices, (double)t->slice_ns / 1e6,
		100 * share_of(t->switching_ns, t->duration_ns));
	print_if(f, t->failures,
		 "times a register could not be moved and was unused for one slice");
}

void run_text_watch_end(FILE *f, const struct run_end *end)
{
	if (end->objects)
		text_objects(f, end->objects);
	if (end->multiplex)
		text_slices(f, end->multiplex);
}

static json_t *json_objects(const struct run_objects *o)
{
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
		{ "seen", o->seen },
		{ "watched", o->watched },
		{ "ended", o->ended },
		{ "unmapped", o->unmapped },
		{ "alive", o->alive },
		{ "too_late", o->too_late },
		{ "null", o->nothing },
		{ "no_place", o->no_place },
		{ "untracked", o->untracked },
		{ "calls", o->calls },
		{ "calls_lost", o->calls_lost },
		{ "registers", o->registers },
		{ "lifetime_ns", o->life_ns },
		{ "watched_ns", o->watched_ns },
		{ "stalled", o->stalled },
		{ "stalled_ns", o->stalled_ns },
		{ "in_time", o->in_time },
		{ "doubtful", o->doubtful },
		{ "armed_after_median_ns", o->delay_median_ns },
		{ "armed_after_max_ns", o->delay_max_ns },
	};
	json_t *j = json_object();

	json_object_set_new(j, "at", run_json_text(o->at));
	json_object_set_new(j, "until", run_json_text(o->until));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_set_new(j, numbers[i].name, json_integer((json_int_t)numbers[i].value));
	json_object_set_new(j, "share", json_real(share_of(o->watched_ns, o->life_ns)));
	return j;
}

static json_t *json_places(const struct run_multiplex *t)
{
	json_t *places = json_array();

	for (size_t i = 0; i < t->expr_count; i++) {
		const struct run_multiplex_expr *p = &t->expr[i];
		json_array_append_new(
			places,
			json_pack("{s:o,s:o,s:I,s:I,s:I,s:I,s:f}", "what", run_json_text(p->name),
				  "address", run_json_hex(p->address), "len", (json_int_t)p->len,
				  "words", (json_int_t)p->chunks, "hits", (json_int_t)p->hits,
				  "watched_ns", (json_int_t)p->watched_ns, "share",
				  share_of(p->watched_ns, t->duration_ns)));
	}
	return places;
}

void run_jsonl_watch_end(json_t *to, const struct run_end *end)
{
	const struct run_multiplex *t = end->multiplex;

	if (end->objects)
		json_object_set_new(to, "objects", json_objects(end->objects));
	if (!t)
		return;
	json_object_set_new(to, "places", json_places(t));
	json_object_set_new(
		to, "turns",
		json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "count", (json_int_t)t->slices,
			  "length_ns", (json_int_t)t->slice_ns, "words", (json_int_t)t->chunks,
			  "registers", (json_int_t)t->registers, "switching_ns",
			  (json_int_t)t->switching_ns, "failures", (json_int_t)t->failures,
			  "unplaced", (json_int_t)t->unplaced));
}
