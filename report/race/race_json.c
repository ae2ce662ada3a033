/* SPDX-License-Identifier: MIT */
/* race_json.c - races and the summary as JSON lines. */
#include "report/race/race_json.h"

#include "record/race_words.h"
#include "report/files/files.h"
#include "report/finding/baseline.h"
#include "report/finding/finding_place.h"
#include "report/run/run.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define STACK_MAX (RACE_FRAMES * RACE_INLINED)

static size_t frames_of(struct race_report *r, const struct race_side *side, uint32_t first,
			struct run_frame *out)
{
	size_t n = 0;

	for (uint32_t i = first; i < side->frame_count; i++) {
		bool after;
		uint64_t at = race_frame(side, i, &after);

		n += race_run_frames(r, at, after, out + n, STACK_MAX - n);
	}
	return n;
}

/* What identifies the location in another build, beside the path: see race_places.h. */
static void add_build(struct race_report *r, const struct race_access_place *a, json_t *j)
{
	struct files_scope scope = { 0 };
	char id[64] = "";
	uint64_t address;
	struct symbols *s = race_symbols(r, a->at, &address);

	if (s) {
		files_build_id(s, id, sizeof(id));
		files_scope(s, address - a->after, &scope);
	}
	json_object_set_new(j, "build_id", finding_json_text(id));
	json_object_set_new(j, "line_in_function",
			    scope.function_line && a->place.line ?
				    json_integer(a->place.line - scope.function_line) :
				    json_null());
}

json_t *race_json_side(struct race_report *r, const struct race_view *v,
		       const struct race_side *side)
{
	const struct race_access_place *a = side == &v->record.first ? &v->first : &v->second;
	struct run_frame frames[STACK_MAX];
	char path[PATH_MAX] = "";
	const struct finding_moment moment = {
		.tid = side->tid,
		.thread = side->thread,
		.function = a->place.function,
		.place = &a->place,
		.module_path = path,
		.via = a->via,
		.frames = frames,
		.frame_count = frames_of(r, side, a->frame, frames),
	};
	json_t *j = json_object();

	file_places_name(race_places(r), a->at, path, sizeof(path));
	json_object_set_new(j, "access", json_string(race_access_name(side->access)));
	json_object_set_new(j, "locked", json_boolean(side->flags & RACE_LOCKED));
	finding_json_moment(j, &moment);
	json_object_set_new(j, "ip", run_json_hex(side->ip));
	json_object_set_new(j, "decoded", json_boolean(side->flags & RACE_DECODED));
	add_build(r, a, j);
	return j;
}

static json_t *heap_moment(struct race_report *r, const struct race_heap_event *event)
{
	struct run_frame frames[RACE_HEAP_FRAMES * RACE_INLINED];
	struct finding_place place = { .at = 0 };
	char path[PATH_MAX] = "";
	struct finding_moment moment = {
		.tid = event->tid,
		.thread = event->thread,
		.time_ns = event->time_ns,
		.frames = frames,
	};
	json_t *j = json_object();

	for (uint32_t i = 0; i < event->frame_count; i++)
		moment.frame_count += race_run_frames(r, event->frames[i], true,
						      frames + moment.frame_count, RACE_INLINED);
	finding_place_find(race_places(r), event->frames, event->frame_count, false, &place);
	file_places_name(race_places(r), place.at, path, sizeof(path));
	moment.function = place.function;
	moment.place = &place.place;
	moment.module_path = path;
	moment.via = place.via;
	finding_json_moment(j, &moment);
	return j;
}

static json_t *block_of(struct race_report *r, const struct race_record *record)
{
	const struct race_heap *heap = &record->heap;

	if (!record->has_heap)
		return json_null();
	json_t *j = finding_json_block(heap->start, heap->size,
				       (int64_t)(record->address - heap->start),
				       heap_moment(r, &heap->allocated),
				       heap->freed.time_ns ? heap_moment(r, &heap->freed) : NULL);
	json_object_set_new(j, "is_new", json_boolean(race_heap_is_new(record)));
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

static json_t *also_side(const struct race_access_place *a)
{
	json_t *j = json_object();

	json_object_set_new(j, "function", finding_json_text(a->function));
	json_object_set_new(j, "file", finding_json_text(a->place.file));
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
		json_object_set_new(j, "count", run_json_count(race_report_times(r, v)));
		json_object_set_new(j, "first", also_side(&v->first));
		json_object_set_new(j, "second", also_side(&v->second));
		json_array_append_new(list, j);
	}
	return list;
}

static void add_memory(struct race_report *r, const struct race_view *v, json_t *j)
{
	const struct race_record *record = &v->record;

	json_object_set_new(j, "address", run_json_hex(record->address));
	json_object_set_new(j, "size", json_integer(record->len));
	json_object_set_new(j, "variable", finding_json_text(v->variable));
	json_object_set_new(j, "memory", json_string(race_memory_name(record->memory)));
	json_object_set_new(j, "block", block_of(r, record));
	json_object_set_new(j, "old", run_json_count(record->old_value));
	json_object_set_new(j, "new", run_json_count(record->new_value));
}

void race_print_json(struct race_report *r, const struct race_view *v, FILE *f)
{
	const struct race_record *record = &v->record;
	const struct finding head = {
		.type = "race",
		.kind = race_kind(record),
		.grade = (const char[]){ "ABC"[v->grade], '\0' },
		.fingerprint = v->fingerprint,
		.count = race_report_times(r, v),
		.pid = record->pid,
		.time_ns = record->time_ns,
	};
	bool is_unknown = record->flags & RACE_UNKNOWN_ORIGIN;
	json_t *j = finding_json(&head);

	json_object_set_new(j, "first", race_json_side(r, v, &record->first));
	json_object_set_new(j, "second",
			    is_unknown ? json_null() : race_json_side(r, v, &record->second));
	add_memory(r, v, j);
	json_object_set_new(j, "stalled_ns", run_json_count(record->stalled_ns));
	json_object_set_new(j, "why", finding_json_text(v->why));
	json_object_set_new(j, "varied", race_json_varied(v));
	json_object_set_new(j, "also", race_json_also(r, v));
	if (race_report_policy(r)->gives_suppressions) {
		char *suppression = race_suppression(r, v);

		json_object_set_new(j, "suppression", finding_json_text(suppression));
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

		if (!suppression_is_reported(s))
			continue;
		json_t *j = json_object();
		race_suppression_uses(r, s, grade_max, &races, &times);
		json_object_set_new(j, "suppression", finding_json_text(s->text));
		json_object_set_new(j, "file", finding_json_text(s->file));
		json_object_set_new(j, "line", json_integer(s->line));
		json_object_set_new(j, "races", run_json_count(races));
		json_object_set_new(j, "count", run_json_count(times));
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
	json_object_set_new(j, "races", run_json_count(counts[RACE_SHOWN]));
	json_object_set_new(j, "races_not_shown", run_json_count(counts[RACE_BELOW_GRADE]));
	json_object_set_new(j, "suppressed", run_json_count(counts[RACE_SUPPRESSED]));
	json_object_set_new(j, "baselined", run_json_count(counts[RACE_BASELINED]));
}

json_t *race_summary_object(struct race_report *r, const struct race_totals *t,
			    enum race_grade grade_max)
{
	json_t *counters = json_object();
	json_t *j = json_object();

	for (int c = 0; c < RACE_COUNTERS; c++)
		json_object_set_new(counters, race_counter_names[c],
				    run_json_count(t->counters[c]));
	json_object_set_new(j, "type", json_string("summary"));
	add_verdicts(r, grade_max, j);
	json_object_set_new(j, "searched_from", json_string(t->is_outside ? "outside" : "inside"));
	json_object_set_new(j, "watched_by",
			    json_string(t->is_by_sites ? "probes" : "debug_registers"));
	json_object_set_new(j, "stalls", run_json_count(t->counters[RACE_STALLS]));
	json_object_set_new(j, "runs", run_json_count(t->runs));
	json_object_set_new(j, "runs_cut", run_json_count(t->runs_cut));
	json_object_set_new(j, "runs_hung", run_json_count(t->runs_hung));
	json_object_set_new(j, "failures", run_json_count(t->failures));
	json_object_set_new(j, "sites_covered",
			    run_json_count(t->is_sweep ? t->coverage.held : t->sites));
	json_object_set_new(j, "sites_total",
			    t->is_sweep	   ? run_json_count(t->coverage.total) :
			    t->sites_there ? run_json_count(t->sites_there) :
					     json_null());
	json_object_set_new(j, "sites_reached",
			    t->is_sweep || t->coverage.total ? run_json_count(t->coverage.reached) :
							       json_null());
	json_object_set_new(j, "sites_reached_tested",
			    t->is_sweep || t->coverage.total ? run_json_count(t->coverage.held) :
							       json_null());
	json_object_set_new(j, "sites_lost", run_json_count(t->sites_lost));
	json_object_set_new(j, "sites_unproven", run_json_count(t->sites_unproven));
	json_object_set_new(j, "sites_refused", run_json_count(t->sites_refused));
	json_object_set_new(j, "overhead",
			    json_real(t->run_ns ? (double)t->spent_ns / (double)t->run_ns : 0.0));
	json_object_set_new(j, "stalled_ns", run_json_count(t->stalled_ns));
	json_object_set_new(j, "run_ns", run_json_count(t->run_ns));
	json_object_set_new(j, "wall_ns", run_json_count(t->wall_ns));
	json_object_set_new(j, "first_race_ns",
			    t->first_race_ns ? run_json_count(t->first_race_ns) : json_null());
	json_object_set_new(j, "processes", run_json_count(t->processes));
	json_object_set_new(j, "processes_failed", run_json_count(t->failed));
	json_object_set_new(j, "threads_at_once", run_json_count(t->most_threads));
	json_object_set_new(j, "watches", run_json_count(t->watches));
	json_object_set_new(j, "processes_on_cpus", run_json_count(t->on_cpus));
	json_object_set_new(j, "lost_torn", run_json_count(t->torn));
	json_object_set_new(j, "lost_unlisted", run_json_count(t->unlisted));
	json_object_set_new(j, "lost_processes", run_json_count(t->lost_processes));
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
