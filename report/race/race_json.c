// SPDX-License-Identifier: MIT
/* race_json.c - races and the summary as JSON lines. */
#include "report/race/race_json.h"

#include "report/race/race_baseline.h"
#include "report/run/run.h"
#include "report/safe/files.h"

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

static void race_json_add_place(json_t *to, const struct place *p, const char *function)
{
	json_object_set_new(to, "function", race_json_text(function));
	json_object_set_new(to, "module", race_json_text(p->module));
	json_object_set_new(to, "file", race_json_text(p->file));
	json_object_set_new(to, "line", p->line ? json_integer(p->line) : json_null());
}

static json_t *frame_of(const struct place *p, bool is_inlined)
{
	json_t *frame = json_object();

	race_json_add_place(frame, p, p->function);
	json_object_set_new(frame, "offset", p->function ? json_number(p->offset) : json_null());
	json_object_set_new(frame, "module_offset",
			    p->module ? run_json_hex(p->module_offset) : json_null());
	if (is_inlined)
		json_object_set_new(frame, "inlined", json_true());
	return frame;
}

static void race_json_add_frames(struct race_report *r, uint64_t at, bool after, json_t *stack)
{
	struct place places[RACE_INLINED];
	size_t count = race_frames(r, at, after, places, RACE_INLINED);

	for (size_t k = 0; k < count; k++)
		json_array_append_new(stack, frame_of(&places[k], k + 1 < count));
}

static json_t *stack_of(struct race_report *r, const struct race_side *side, uint32_t from)
{
	json_t *stack = json_array();

	for (uint32_t i = from; i < side->frame_count; i++) {
		bool after;
		uint64_t at = race_frame(side, i, &after);

		race_json_add_frames(r, at, after, stack);
	}
	return stack;
}

/* What identifies the location in another build: see race_places.h. */
static void add_identity(struct race_report *r, const struct race_side *side,
			 const struct race_access_place *a, json_t *j)
{
	struct files_scope scope = { 0 };
	char path[PATH_MAX];
	char id[64] = "";
	uint64_t address;
	struct symbols *s = race_symbols(r, a->at, &address);

	race_path(r, a->at, path, sizeof(path));
	if (s) {
		files_build_id(s, id, sizeof(id));
		files_scope(s, address - a->after, &scope);
	}
	json_object_set_new(j, "path", race_json_text(path));
	json_object_set_new(j, "build_id", race_json_text(id));
	json_object_set_new(j, "line_in_function",
			    scope.function_line && a->place.line ?
				    json_integer(a->place.line - scope.function_line) :
				    json_null());
	json_object_set_new(j, "decoded", json_boolean(side->flags & RACE_DECODED));
	json_object_set_new(j, "via", race_json_text(a->via));
}

static json_t *side_of(struct race_report *r, const struct race_side *side,
		       const struct race_access_place *a)
{
	json_t *j = json_object();

	json_object_set_new(j, "access", json_string(race_access_name(side->access)));
	json_object_set_new(j, "locked", json_boolean(side->flags & RACE_LOCKED));
	json_object_set_new(j, "tid", json_integer(side->tid));
	json_object_set_new(j, "thread", race_json_text(side->thread));
	json_object_set_new(j, "ip", run_json_hex(side->ip));
	race_json_add_place(j, &a->place, a->place.function);
	add_identity(r, side, a, j);
	json_object_set_new(j, "stack", stack_of(r, side, a->frame));
	return j;
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

/* null: in no block that is known. */
static json_t *heap_of(struct race_report *r, const struct race_record *record)
{
	const struct race_heap *heap = &record->heap;

	if (!record->has_heap)
		return json_null();
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

static const char *memory_name(uint32_t memory)
{
	static const char *const names[] = {
		[RACE_MEMORY_UNKNOWN] = "unknown", [RACE_MEMORY_FILE] = "file",
		[RACE_MEMORY_HEAP] = "heap",	   [RACE_MEMORY_ANONYMOUS] = "anonymous",
		[RACE_MEMORY_STACK] = "stack",	   [RACE_MEMORY_SHARED] = "shared",
	};

	return names[memory <= RACE_MEMORY_SHARED ? memory : RACE_MEMORY_UNKNOWN];
}

/* No thread was seen: the members exist all the same, so that readers need not check for them. */
static json_t *unknown_side(void)
{
	static const char *const identity[] = { "path", "build_id", "line_in_function", "decoded",
						"via" };
	static const struct place nowhere;
	json_t *j = json_object();

	json_object_set_new(j, "access", json_string("unknown"));
	json_object_set_new(j, "locked", json_false());
	json_object_set_new(j, "tid", json_null());
	json_object_set_new(j, "thread", json_null());
	json_object_set_new(j, "ip", json_null());
	race_json_add_place(j, &nowhere, NULL);
	for (size_t i = 0; i < sizeof(identity) / sizeof(identity[0]); i++)
		json_object_set_new(j, identity[i], json_null());
	json_object_set_new(j, "stack", json_array());
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

void race_print_json(struct race_report *r, const struct race_view *v, FILE *f)
{
	const struct race_record *record = &v->record;
	const char grade[] = { "ABC"[v->grade], '\0' };
	json_t *j = json_object();

	json_object_set_new(j, "type", json_string("race"));
	json_object_set_new(j, "grade", json_string(grade));
	json_object_set_new(j, "kind", json_string(race_kind(v)));
	json_object_set_new(j, "first", side_of(r, &record->first, &v->first));
	json_object_set_new(j, "second",
			    record->flags & RACE_UNKNOWN_ORIGIN ?
				    unknown_side() :
				    side_of(r, &record->second, &v->second));
	json_object_set_new(j, "address", run_json_hex(record->address));
	json_object_set_new(j, "size", json_integer(record->len));
	json_object_set_new(j, "variable", race_json_text(v->variable));
	json_object_set_new(j, "memory", json_string(memory_name(record->memory)));
	json_object_set_new(j, "heap", heap_of(r, record));
	json_object_set_new(j, "old", json_number(record->old_value));
	json_object_set_new(j, "new", json_number(record->new_value));
	json_object_set_new(j, "stalled_ns", json_number(record->stalled_ns));
	json_object_set_new(j, "count", json_number(race_report_times(r, v)));
	json_object_set_new(j, "fingerprint", json_string(v->fingerprint));
	json_object_set_new(j, "why", json_string(v->why));
	json_object_set_new(j, "pid", json_integer(record->pid));
	json_object_set_new(j, "varied", race_json_varied(v));
	if (race_report_policy(r)->syntax) {
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
	json_object_set_new(j, "sites_covered",
			    json_number(t->is_sweep ? t->coverage.held : t->sites));
	json_object_set_new(j, "sites_total",
			    t->is_sweep	   ? json_number(t->coverage.total) :
			    t->sites_there ? json_number(t->sites_there) :
					     json_null());
	json_object_set_new(j, "sites_reached",
			    t->is_sweep ? json_number(t->coverage.reached) : json_null());
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
