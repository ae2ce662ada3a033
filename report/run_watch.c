// SPDX-License-Identifier: MIT
/* run_watch.c - see run_watch.h. */
#include "run_watch.h"

#include <inttypes.h>

static double share_of(uint64_t part, uint64_t whole)
{
	double share = whole ? (double)part / (double)whole : 0;

	return share < 1 ? share : 1;
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void say_if(FILE *f, uint64_t n, const char *text)
{
	if (n)
		fprintf(f, "%" PRIu64 " %s\n", n, text);
}

static void text_objects(FILE *f, const struct run_objects *o)
{
	fprintf(f,
		"objects: %" PRIu64 " seen at %s, %" PRIu64 " watched, %" PRIu64
		" never (%" PRIu64 " register%s); %" PRIu64 " ended, %" PRIu64 " still there\n",
		o->seen, o->at, o->watched, o->seen > o->watched ? o->seen - o->watched : 0,
		o->registers, plural(o->registers), o->ended + o->unmapped, o->alive);
	if (o->life_ns)
		fprintf(f, "they were watched for %.1f%% of their lifetimes%s\n",
			100 * share_of(o->watched_ns, o->life_ns),
			o->until ? "" :
				   ", as far as known: without --until none ends but by munmap");
	if (o->delays)
		fprintf(f,
			"armed %.0f us after %s %s (median; worst %.0f us): what happened to an object "
			"before is not seen\n",
			(double)o->delay_median_ns / 1e3, o->function,
			o->is_return ? "returned" : "was entered",
			(double)o->delay_max_ns / 1e3);
	say_if(f, o->too_late, "had ended before they were armed");
	say_if(f, o->nothing, "calls with a null pointer instead of an object");
	say_if(f, o->no_place,
	       "could not be watched: a null pointer on the way, or alignment");
	say_if(f, o->untracked, "were too many at a time to be known");
	say_if(f, o->calls_lost,
	       "calls were lost: their objects, or the ends of objects, are not known");
	say_if(f, o->after_end,
	       "hits dropped: the object had ended, the memory was another's");
}

static void text_turns(FILE *f, const struct run_turns *t)
{
	fprintf(f, "\n%10s %8s  place\n", "hits", "watched");
	for (size_t i = 0; i < t->place_count; i++) {
		const struct run_turns_place *p = &t->place[i];
		fprintf(f, "%10" PRIu64 " %7.1f%%  %s, %" PRIu64 " byte%s", p->hits,
			100 * share_of(p->watched_ns, t->duration_ns), p->name, p->len,
			plural(p->len));
		if (p->words > 1)
			fprintf(f, " in %" PRIu64 " words", p->words);
		fputc('\n', f);
	}
	if (t->words == t->registers)
		return;
	fprintf(f,
		"turns: %" PRIu64 " words shared %" PRIu64 " register%s, %" PRIu64
		" turns of %.0f ms, %.2f%% of the time "
		"spent on switching; hits while a place was not watched are missed\n",
		t->words, t->registers, plural(t->registers), t->turns,
		(double)t->length_ns / 1e6,
		100 * share_of(t->switching_ns, t->duration_ns));
	say_if(f, t->failures,
	       "times a register could not be moved, and rested for that turn");
}

void run_text_watch_end(FILE *f, const struct run_end *end)
{
	if (end->objects)
		text_objects(f, end->objects);
	if (end->turns)
		text_turns(f, end->turns);
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
		{ "armed_after_median_ns", o->delay_median_ns },
		{ "armed_after_max_ns", o->delay_max_ns },
	};
	json_t *j = json_object();

	json_object_set_new(j, "at", run_json_text(o->at));
	json_object_set_new(j, "until", run_json_text(o->until));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_set_new(j, numbers[i].name,
				    json_integer((json_int_t)numbers[i].value));
	json_object_set_new(j, "share", json_real(share_of(o->watched_ns, o->life_ns)));
	return j;
}

static json_t *json_places(const struct run_turns *t)
{
	json_t *places = json_array();

	for (size_t i = 0; i < t->place_count; i++) {
		const struct run_turns_place *p = &t->place[i];
		json_array_append_new(
			places,
			json_pack("{s:o,s:o,s:I,s:I,s:I,s:I,s:f}", "what",
				  run_json_text(p->name), "address",
				  run_json_hex(p->address), "len", (json_int_t)p->len,
				  "words", (json_int_t)p->words, "hits",
				  (json_int_t)p->hits, "watched_ns",
				  (json_int_t)p->watched_ns, "share",
				  share_of(p->watched_ns, t->duration_ns)));
	}
	return places;
}

void run_jsonl_watch_end(json_t *to, const struct run_end *end)
{
	const struct run_turns *t = end->turns;

	if (end->objects)
		json_object_set_new(to, "objects", json_objects(end->objects));
	if (!t)
		return;
	json_object_set_new(to, "places", json_places(t));
	json_object_set_new(
		to, "turns",
		json_pack("{s:I,s:I,s:I,s:I,s:I,s:I}", "count", (json_int_t)t->turns,
			  "length_ns", (json_int_t)t->length_ns, "words",
			  (json_int_t)t->words, "registers", (json_int_t)t->registers,
			  "switching_ns", (json_int_t)t->switching_ns, "failures",
			  (json_int_t)t->failures));
}
