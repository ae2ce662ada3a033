/* SPDX-License-Identifier: MIT */
/* race_json.c - races and the summary as JSON lines. */
#include "report/race/race_json.h"

#include "record/race_words.h"
#include "report/files/files.h"
#include "report/race/race_baseline.h"
#include "report/run/run.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* JSON's integers end where a signed 64-bit number does. */
static json_t *json_number(uint64_t value)
{
	return value <= INT64_MAX ? json_integer((json_int_t)value) : run_json_hex(value);
}

json_t *race_json_text(const char *text)
{
	return run_json_text(text && *text ? text : NULL);
}

/* What an object of a race is made from. */
struct told {
	struct race_report *report;
	const struct race_view *view;
};

static json_t *members_of(const struct told *t, const char *const *names, const void *words,
			  size_t n);

static struct race_value text_value(const char *text)
{
	return race_value_text(text && *text ? text : NULL, UINT32_MAX);
}

static struct race_value line_value(int line)
{
	return line ? race_value_number((uint64_t)line) : (struct race_value){ 0 };
}

static json_t *frame_of(const struct place *p, bool is_inlined)
{
	struct race_frame_words words = {
		.function = text_value(p->function),
		.module = text_value(p->module),
		.file = text_value(p->file),
		.line = line_value(p->line),
	};

	if (p->function)
		words.offset = race_value_number(p->offset);
	if (p->module)
		words.module_offset = race_value_hex(p->module_offset);
	json_t *frame = members_of(NULL, race_frame_names, &words, RACE_WORDS(words));
	if (is_inlined)
		json_object_set_new(frame, "inlined", json_true());
	if (p->same_code)
		json_object_set_new(frame, "same_code", run_json_same_code(p->same_code));
	return frame;
}

static void race_json_add_frames(struct race_report *r, uint64_t at, bool after, json_t *stack)
{
	struct place places[RACE_INLINED];
	size_t count = race_frames(r, at, after, places, RACE_INLINED);

	for (size_t k = 0; k < count; k++)
		json_array_append_new(stack, frame_of(&places[k], k + 1 < count));
}

static const struct race_access_place *place_of(const struct told *t, const struct race_side *side)
{
	return side == &t->view->record.first ? &t->view->first : &t->view->second;
}

static json_t *stack_of(const struct told *t, const struct race_side *side)
{
	json_t *stack = json_array();

	for (uint32_t i = side ? place_of(t, side)->frame : 0; side && i < side->frame_count; i++) {
		bool after;
		uint64_t at = race_frame(side, i, &after);

		race_json_add_frames(t->report, at, after, stack);
	}
	return stack;
}

static json_t *side_of(const struct told *t, const struct race_side *side)
{
	struct race_side_words words = race_side_words(side);
	struct files_scope scope = { 0 };
	char path[PATH_MAX] = "";
	char id[64] = "";
	uint64_t address;

	if (side) {
		const struct race_access_place *a = place_of(t, side);
		struct symbols *s = race_symbols(t->report, a->at, &address);

		race_path(t->report, a->at, path, sizeof(path));
		if (s) {
			files_build_id(s, id, sizeof(id));
			files_scope(s, address - a->after, &scope);
		}
		words.function = text_value(a->place.function);
		words.module = text_value(a->place.module);
		words.file = text_value(a->place.file);
		words.line = line_value(a->place.line);
		/* What identifies the location in another build: see race_places.h. */
		words.path = text_value(path);
		words.build_id = text_value(id);
		if (scope.function_line && a->place.line)
			words.line_in_function =
				race_value_signed(a->place.line - scope.function_line);
		words.via = text_value(a->via);
	}
	return members_of(t, race_side_names, &words, RACE_WORDS(words));
}

static json_t *heap_event_of(struct race_report *r, const struct race_heap_event *event, json_t *j)
{
	json_t *stack = json_array();

	json_object_set_new(j, "tid", json_integer(event->tid));
	json_object_set_new(j, "thread", race_json_text(event->thread));
	for (uint32_t i = 0; i < event->frame_count; i++)
		race_json_add_frames(r, event->frames[i], true, stack);
	json_object_set_new(j, "stack", stack);
	return j;
}

static json_t *heap_of(struct race_report *r, const struct race_record *record)
{
	const struct race_heap *heap = &record->heap;

	json_t *j = json_object();

	json_object_set_new(j, "block", run_json_hex(heap->start));
	json_object_set_new(j, "size", json_number(heap->size));
	json_object_set_new(j, "offset", json_number(record->address - heap->start));
	heap_event_of(r, &heap->allocated, j);
	json_object_set_new(j, "is_new", json_boolean(race_heap_is_new(record)));
	json_object_set_new(j, "freed",
			    heap->freed.time_ns ? heap_event_of(r, &heap->freed, json_object()) :
						  json_null());
	return j;
}

json_t *race_json_varied(const struct race_view *v)
{
	char text[sizeof(v->varied)];
	char *rest = text;

	if (!v->varied[0])
		return json_null();
	memcpy(text, v->varied, sizeof(text));
	json_t *j = json_object();
	for (char *line; (line = strsep(&rest, "\n"));) {
		char *value = strchr(line, '=');

		if (!value)
			continue;
		*value++ = '\0';
		json_object_set_new(j, line, run_json_text(value));
	}
	return j;
}

static json_t *value_of(const struct told *t, const struct race_value *v)
{
	switch (v->kind) {
	case RACE_VALUE_TEXT:
		return race_json_text(v->text);
	case RACE_VALUE_NUMBER:
		return json_number(v->number);
	case RACE_VALUE_SIGNED:
		return json_integer((json_int_t)v->number);
	case RACE_VALUE_HEX:
		return run_json_hex(v->number);
	case RACE_VALUE_BOOLEAN:
		return json_boolean(v->number);
	case RACE_VALUE_SIDE:
		return side_of(t, v->part);
	case RACE_VALUE_STACK:
		return stack_of(t, v->part);
	case RACE_VALUE_HEAP:
		return heap_of(t->report, v->part);
	case RACE_VALUE_VARIED:
		return race_json_varied(t->view);
	default:
		return json_null();
	}
}

static json_t *members_of(const struct told *t, const char *const *names, const void *words,
			  size_t n)
{
	const struct race_value *values = words;
	json_t *j = json_object();

	for (size_t i = 0; i < n; i++)
		json_object_set_new(j, names[i], value_of(t, &values[i]));
	return j;
}

static json_t *also_side(const struct race_access_place *a)
{
	json_t *j = json_object();

	json_object_set_new(j, "function", race_json_text(a->function));
	json_object_set_new(j, "file", race_json_text(a->place.file));
	json_object_set_new(j, "line", a->place.line ? json_integer(a->place.line) : json_null());
	return j;
}

json_t *race_json_also(struct race_report *r, const struct race_view *head)
{
	json_t *list = json_array();

	for (size_t i = 0; i < race_report_count(r); i++) {
		const struct race_view *v = race_report_view(r, i);
		json_t *j = v->head == head ? json_object() : NULL;

		if (!j)
			continue;
		json_object_set_new(j, "fingerprint", json_string(v->fingerprint));
		json_object_set_new(j, "count", json_number(race_report_times(r, v)));
		json_object_set_new(j, "first", also_side(&v->first));
		json_object_set_new(j, "second", also_side(&v->second));
		json_array_append_new(list, j);
	}
	return list;
}

json_t *race_json_side(struct race_report *r, const struct race_view *v,
		       const struct race_side *side)
{
	struct told t = { r, v };

	return side_of(&t, side);
}

void race_print_json(struct race_report *r, const struct race_view *v, FILE *f)
{
	struct told t = { r, v };
	struct race_words words =
		race_words(&v->record, (struct race_judgement){ v->grade, v->why });

	words.variable = text_value(v->variable);
	words.count = race_value_number(race_report_times(r, v));
	words.fingerprint = text_value(v->fingerprint);
	words.varied.kind = RACE_VALUE_VARIED;
	json_t *j = members_of(&t, race_names, &words, RACE_WORDS(words));
	json_object_set_new(j, "also", race_json_also(r, v));
	if (race_report_policy(r)->gives_suppressions) {
		char *suppression = race_suppression(r, v);

		json_object_set_new(j, "suppression", race_json_text(suppression));
		free(suppression);
	}
	run_jsonl_line(f, j);
}

/* Each with how much it was used: those with 0 races may go, if it stays so. */
static json_t *suppressions_of(struct race_report *r, enum race_grade grade_max)
{
	struct suppressions *all = race_report_policy(r)->suppressions;
	json_t *list = json_array();

	for (size_t i = 0; i < suppressions_count(all); i++) {
		const struct suppression *s = suppressions_at(all, i);
		uint64_t times;
		size_t races;

		if (!suppression_is_told(s))
			continue;
		json_t *j = json_object();
		race_suppression_uses(r, s, grade_max, &races, &times);
		json_object_set_new(j, "suppression", race_json_text(s->text));
		json_object_set_new(j, "file", race_json_text(s->file));
		json_object_set_new(j, "line", json_integer(s->line));
		json_object_set_new(j, "races", json_number(races));
		json_object_set_new(j, "count", json_number(times));
		json_object_set_new(j, "is_used", json_boolean(s->matches));
		json_array_append_new(list, j);
	}
	return list;
}

static json_t *gone_of(const struct baseline *b)
{
	json_t *list = json_array();

	for (size_t i = 0; i < baseline_count(b); i++)
		if (!baseline_at(b, i)->is_seen)
			json_array_append_new(list, json_string(baseline_at(b, i)->fingerprint));
	return list;
}

static void add_verdicts(struct race_report *r, enum race_grade grade_max, json_t *j)
{
	size_t counts[RACE_VERDICTS];

	race_report_verdicts(r, grade_max, counts);
	json_object_set_new(j, "races", json_number(counts[RACE_SHOWN]));
	json_object_set_new(j, "races_not_shown", json_number(counts[RACE_BELOW_GRADE]));
	json_object_set_new(j, "suppressed", json_number(counts[RACE_SUPPRESSED]));
	json_object_set_new(j, "baselined", json_number(counts[RACE_BASELINED]));
}

json_t *race_summary_object(struct race_report *r, const struct race_totals *t,
			    enum race_grade grade_max)
{
	json_t *counters = json_object();
	json_t *j = json_object();

	for (int c = 0; c < RACE_COUNTERS; c++)
		json_object_set_new(counters, race_counter_names[c], json_number(t->counters[c]));
	json_object_set_new(j, "type", json_string("summary"));
	add_verdicts(r, grade_max, j);
	json_object_set_new(j, "stalls", json_number(t->counters[RACE_STALLS]));
	json_object_set_new(j, "runs", json_number(t->runs));
	json_object_set_new(j, "runs_cut", json_number(t->runs_cut));
	json_object_set_new(j, "failures", json_number(t->failures));
	json_object_set_new(j, "sites_covered",
			    json_number(t->is_sweep ? t->coverage.held : t->sites));
	json_object_set_new(j, "sites_total",
			    t->is_sweep	   ? json_number(t->coverage.total) :
			    t->sites_there ? json_number(t->sites_there) :
					     json_null());
	json_object_set_new(j, "sites_reached",
			    t->is_sweep || t->coverage.total ? json_number(t->coverage.reached) :
							       json_null());
	json_object_set_new(j, "sites_reached_tested",
			    t->is_sweep || t->coverage.total ? json_number(t->coverage.held) :
							       json_null());
	json_object_set_new(j, "sites_lost", json_number(t->sites_lost));
	json_object_set_new(j, "sites_unproven", json_number(t->sites_unproven));
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
	json_object_set_new(j, "processes_on_cpus", json_number(t->on_cpus));
	json_object_set_new(j, "lost_torn", json_number(t->torn));
	json_object_set_new(j, "lost_unlisted", json_number(t->unlisted));
	json_object_set_new(j, "lost_processes", json_number(t->lost_processes));
	json_object_set_new(j, "suppressions", suppressions_of(r, grade_max));
	json_object_set_new(j, "baseline_gone", gone_of(race_report_policy(r)->baseline));
	json_object_set_new(j, "counters", counters);
	return j;
}

void race_summary_json(struct race_report *r, const struct race_totals *t,
		       enum race_grade grade_max, FILE *f)
{
	run_jsonl_line(f, race_summary_object(r, t, grade_max));
}
