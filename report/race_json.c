// SPDX-License-Identifier: MIT
/* race_json.c - races and the summary as JSON lines. */
#include "report/race.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

static json_t *json_hex(uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	return json_string(text);
}

/* JSON's integers end where a signed 64-bit number does. */
static json_t *json_number(uint64_t value)
{
	return value <= INT64_MAX ? json_integer((json_int_t)value) : json_hex(value);
}

/* Names in a foreign binary need not be UTF-8; jansson refuses others. */
static json_t *json_text(const char *text)
{
	json_t *j = text && *text ? json_string(text) : NULL;
	char plain[256];
	size_t n = 0;

	if (j || !text || !*text)
		return j ? j : json_null();
	for (; text[n] && n < sizeof(plain) - 1; n++)
		plain[n] = (unsigned char)text[n] < 0x80 ? text[n] : '?';
	plain[n] = 0;
	return json_string(plain);
}

static void add_place(json_t *to, const struct place *p, const char *function)
{
	json_object_set_new(to, "function", json_text(function));
	json_object_set_new(to, "module", json_text(p->module));
	json_object_set_new(to, "file", json_text(p->file));
	json_object_set_new(to, "line", p->line ? json_integer(p->line) : json_null());
}

static json_t *stack_of(struct race_report *r, const struct race_side *side, uint32_t from)
{
	json_t *stack = json_array();

	for (uint32_t i = from; i < side->frame_count; i++) {
		json_t *frame = json_object();
		struct place p;
		bool after;
		uint64_t at = race_frame(side, i, &after);

		race_place(r, at, after, &p);
		add_place(frame, &p, p.function);
		json_object_set_new(frame, "offset", p.function ? json_number(p.offset) :
								  json_null());
		json_object_set_new(frame, "module_offset", p.module ? json_hex(p.module_offset) :
								       json_null());
		json_array_append_new(stack, frame);
	}
	return stack;
}

static json_t *side_of(struct race_report *r, const struct race_side *side,
		       const struct race_access_place *a)
{
	json_t *j = json_object();

	json_object_set_new(j, "access", json_string(race_access_name(side->access)));
	json_object_set_new(j, "tid", json_integer(side->tid));
	json_object_set_new(j, "thread", json_text(side->thread));
	json_object_set_new(j, "ip", json_hex(side->ip));
	add_place(j, &a->place, a->place.function);
	json_object_set_new(j, "stack", stack_of(r, side, a->frame));
	return j;
}

/* Nobody was seen: the members are there all the same, so that readers need not ask. */
static json_t *unknown_side(void)
{
	static const struct place nowhere;
	json_t *j = json_object();

	json_object_set_new(j, "access", json_string("unknown"));
	json_object_set_new(j, "tid", json_null());
	json_object_set_new(j, "thread", json_null());
	json_object_set_new(j, "ip", json_null());
	add_place(j, &nowhere, NULL);
	json_object_set_new(j, "stack", json_array());
	return j;
}

static void print_line(json_t *j, FILE *f)
{
	json_dumpf(j, f, JSON_COMPACT);
	fputc('\n', f);
	json_decref(j);
}

void race_print_json(struct race_report *r, const struct race_view *v, FILE *f)
{
	const struct race_record *record = &v->record;
	const char grade[] = { "ABC"[v->grade], '\0' };
	json_t *j = json_object();

	json_object_set_new(j, "type", json_string("race"));
	json_object_set_new(j, "grade", json_string(grade));
	json_object_set_new(j, "kind", json_string(race_kind(v)));
	json_object_set_new(j, "first", side_of(r, &record->first, &v->first));
	json_object_set_new(j, "second", record->flags & RACE_UNKNOWN_ORIGIN ?
						 unknown_side() :
						 side_of(r, &record->second, &v->second));
	json_object_set_new(j, "address", json_hex(record->address));
	json_object_set_new(j, "size", json_integer(record->len));
	json_object_set_new(j, "variable", json_text(v->variable));
	json_object_set_new(j, "old", json_number(record->old_value));
	json_object_set_new(j, "new", json_number(record->new_value));
	json_object_set_new(j, "count", json_number(race_report_times(r, v)));
	json_object_set_new(j, "fingerprint", json_string(v->fingerprint));
	json_object_set_new(j, "why", json_string(v->why));
	json_object_set_new(j, "pid", json_integer(record->pid));
	print_line(j, f);
}

void race_summary_json(struct race_report *r, const struct race_totals *t,
		       enum race_grade grade_max, FILE *f)
{
	size_t shown = 0;
	json_t *counters = json_object();
	json_t *j = json_object();

	for (size_t i = 0; i < race_report_count(r); i++)
		shown += race_report_view(r, i)->grade <= grade_max;
	for (int c = 0; c < RACE_COUNTERS; c++)
		json_object_set_new(counters, race_counter_names[c], json_number(t->counters[c]));
	json_object_set_new(j, "type", json_string("summary"));
	json_object_set_new(j, "races", json_number(shown));
	json_object_set_new(j, "races_not_shown", json_number(race_report_count(r) - shown));
	json_object_set_new(j, "stalls", json_number(t->counters[RACE_STALLS]));
	json_object_set_new(j, "runs", json_number(t->runs));
	json_object_set_new(j, "sites_covered",
			    json_number(t->is_sweep ? t->coverage.held : t->sites));
	json_object_set_new(j, "sites_total",
			    t->is_sweep ? json_number(t->coverage.total) : json_null());
	json_object_set_new(j, "sites_reached",
			    t->is_sweep ? json_number(t->coverage.reached) : json_null());
	json_object_set_new(j, "sites_lost", json_number(t->sites_lost));
	json_object_set_new(j, "sites_refused", json_number(t->sites_refused));
	json_object_set_new(j, "overhead",
			    json_real(t->run_ns ? (double)t->spent_ns / (double)t->run_ns : 0.0));
	json_object_set_new(j, "stalled_ns", json_number(t->stalled_ns));
	json_object_set_new(j, "run_ns", json_number(t->run_ns));
	json_object_set_new(j, "wall_ns", json_number(t->wall_ns));
	json_object_set_new(j, "first_race_ns",
			    t->first_race_ns ? json_number(t->first_race_ns) : json_null());
	json_object_set_new(j, "processes", json_number(t->processes));
	json_object_set_new(j, "processes_failed", json_number(t->failed));
	json_object_set_new(j, "threads_at_once", json_number(t->most_threads));
	json_object_set_new(j, "watches", json_number(t->watches));
	json_object_set_new(j, "lost_torn", json_number(t->torn));
	json_object_set_new(j, "lost_processes", json_number(t->lost_processes));
	json_object_set_new(j, "counters", counters);
	print_line(j, f);
}
