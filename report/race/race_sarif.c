/* SPDX-License-Identifier: MIT */
/*
 * race_sarif.c - races as SARIF 2.1.0, which code scanning of many hosts and editors reads.
 *
 * A kind of race is a rule, a grade is a level; a failure that stalls provoke is a rule too. A
 * result is at the first access; both accesses are related locations, and a code flow leads each
 * thread to its own. What is suppressed or known by the baseline is there, marked as such in the
 * format's own words.
 */
#include "report/finding/finding_json.h"
#include "report/finding/sarif.h"
#include "report/race/race_failure.h"
#include "report/race/race_group.h"
#include "report/race/race_json.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/race_words.h"

static const char race_help[] =
	"Guard both accesses with the same lock, or make both atomic. Grade A (error) is a definite race, B "
	"(warning) is a likely race, C (note) is probably intentional.";
static const char failure_help[] =
	"The program depends on how long a thread takes at these locations. Look for a missing lock, a lost "
	"wakeup, or a sleep in place of a wait. `trapline race --replay` with the fingerprint in the "
	"properties stalls these locations again.";

#define TAGS                               \
	{                                  \
		"concurrency", "data-race" \
	}
/* The id of a race is "race/" and its race_kind(). */
static const struct sarif_rule rules[] = {
	{ "race/write-write", "WriteWriteRace",
	  "Two threads write to the same memory at the same time, without synchronization.",
	  race_help, "warning", TAGS },
	{ "race/read-write", "ReadWriteRace",
	  "A thread reads memory while another thread writes to it, without synchronization.",
	  race_help, "warning", TAGS },
	{ "race/unknown-origin", "RaceOfUnknownOrigin",
	  "Memory changed just before a thread accessed it, but no thread was seen writing it (system "
	  "call or other process).",
	  race_help, "warning", TAGS },
	{ "race/failure", "ProvokedFailure",
	  "The program fails when a thread is stalled, and does not fail otherwise.", failure_help,
	  "warning", TAGS },
};
#define FAILURE_RULE (RULES - 1)
#define RULES (sizeof(rules) / sizeof(rules[0]))

static json_t *rules_list(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < RULES; i++)
		json_array_append_new(list, sarif_rule(&rules[i]));
	return list;
}

static void describe(const struct race_side *side, const char *when, char *out, size_t n)
{
	snprintf(out, n, "%s of %u byte%s by thread %d%s%s%s, %s", race_side_access_name(side),
		 side->size, side->size == 1 ? "" : "s", side->tid, side->thread[0] ? " (" : "",
		 side->thread, side->thread[0] ? ")" : "", when);
}

static const char *const in_race[] = { "stalled before it", "during the stall" };
static const char *const in_failure[] = { "the last stall of the run",
					  "the longest stall before it" };

static json_t *access_location(struct race_report *r, const struct race_view *v, int which,
			       const char *const when[2])
{
	const struct race_side *side = which ? &v->record.second : &v->record.first;
	const struct race_access_place *a = which ? &v->second : &v->first;
	char source[PATH_MAX] = "";
	char text[160];

	race_source(r, a->at, a->after, source, sizeof(source));
	describe(side, when[which], text, sizeof(text));
	return sarif_location(&a->place, source, text);
}

/* From the thread's beginning to the access. */
static json_t *thread_flow(struct race_report *r, const struct race_view *v, int which,
			   const char *const when[2])
{
	const struct race_side *side = which ? &v->record.second : &v->record.first;
	const struct race_access_place *a = which ? &v->second : &v->first;
	json_t *list = json_array();
	char text[160];
	int level = 0;

	for (uint32_t i = side->frame_count; i-- > a->frame;) {
		struct place places[RACE_INLINED];
		char source[PATH_MAX] = "";
		bool after;
		uint64_t at = race_frame(side, i, &after);

		for (size_t k = race_frames(r, at, after, places, RACE_INLINED); k-- > 0;) {
			bool is_access = i == a->frame && !k;

			/* The innermost line is the address's own; others are of calls. */
			if (k || !race_source(r, at, after, source, sizeof(source)))
				snprintf(source, sizeof(source), "%s",
					 places[k].file ? places[k].file : "");
			if (is_access)
				describe(side, when[which], text, sizeof(text));
			json_t *step = sarif_location(&places[k], source, is_access ? text : NULL);
			json_array_append_new(list, json_pack("{s:o, s:i}", "location", step,
							      "nestingLevel", level++));
		}
	}
	snprintf(text, sizeof(text), "%d", side->tid);
	return json_pack("{s:s, s:o, s:o}", "id", text, "message",
			 sarif_message(side->thread[0] ? side->thread : text), "locations", list);
}

static json_t *code_flows(struct race_report *r, const struct race_view *v,
			  const char *const when[2])
{
	json_t *threads = json_array();
	bool has_two = !(v->record.flags & RACE_UNKNOWN_ORIGIN);

	for (int which = 0; which <= has_two; which++) {
		json_t *flow = thread_flow(r, v, which, when);

		/* The format requires at least one. */
		if (json_array_size(json_object_get(flow, "locations")))
			json_array_append_new(threads, flow);
		else
			json_decref(flow);
	}
	if (json_array_size(threads))
		return json_pack("[{s:o}]", "threadFlows", threads);
	json_decref(threads);
	return NULL;
}

static json_t *result_message(const struct race_view *v)
{
	const struct race_record *record = &v->record;
	char text[1200];

	snprintf(text, sizeof(text),
		 "Data race (%s)%s%s: %s in %s, %s%s%s. Value 0x%llx became "
		 "0x%llx. Grade %c: %s.",
		 race_kind(&v->record), v->variable[0] ? " of " : "", v->variable,
		 race_side_access_name(&record->first), v->first.head[0] ? v->first.head : "?",
		 record->flags & RACE_UNKNOWN_ORIGIN ? "changed, but no thread was seen writing" :
						       race_side_access_name(&record->second),
		 record->flags & RACE_UNKNOWN_ORIGIN ? "" : " in ",
		 record->flags & RACE_UNKNOWN_ORIGIN ? "" :
		 v->second.head[0]		     ? v->second.head :
						       "?",
		 (unsigned long long)record->old_value, (unsigned long long)record->new_value,
		 "ABC"[v->grade], v -> why);
	return sarif_message(text);
}

/*
 * The innermost frame whose source is known, because the others are in libraries;
 * otherwise the innermost.
 */
static json_t *heap_location(struct race_report *r, const struct race_heap_event *event,
			     const char *text)
{
	char source[PATH_MAX] = "";
	uint32_t chosen = 0;
	struct place place;

	for (uint32_t i = 0; i < event->frame_count && !*source; i++)
		if (race_source(r, event->frames[i], true, source, sizeof(source)) &&
		    !access(source, F_OK))
			chosen = i;
		else
			*source = '\0';
	race_place(r, event->frames[chosen], true, &place);
	return sarif_location(&place, source, text);
}

static void add_heap(struct race_report *r, const struct race_record *record, json_t *list)
{
	const struct race_heap *heap = &record->heap;
	const struct race_heap_event *events[] = { &heap->allocated, &heap->freed };
	char text[200];

	for (int i = 0; record->has_heap && i < 2; i++) {
		if (!events[i]->time_ns || !events[i]->frame_count)
			continue;
		snprintf(text, sizeof(text),
			 "heap block of %llu bytes, race at offset %llu, %s by thread "
			 "%d",
			 (unsigned long long)heap->size,
			 (unsigned long long)(record->address - heap->start),
			 i ? "freed" : "allocated", events[i]->tid);
		json_t *j = heap_location(r, events[i], text);

		json_object_set_new(j, "id", json_integer((json_int_t)json_array_size(list) + 1));
		json_array_append_new(list, j);
	}
}

static json_t *related(struct race_report *r, const struct race_view *v, const char *const when[2])
{
	json_t *list = json_array();
	bool has_two = !(v->record.flags & RACE_UNKNOWN_ORIGIN);

	for (int which = 0; which <= has_two; which++) {
		json_t *j = access_location(r, v, which, when);

		json_object_set_new(j, "id", json_integer(which + 1));
		json_array_append_new(list, j);
	}
	add_heap(r, &v->record, list);
	return list;
}

/* The main location is a side whose source is known. */
static json_t *main_location(struct race_report *r, const struct race_view *v,
			     const char *const when[2])
{
	bool is_second = !v->first.place.line && v->second.place.line;

	return json_pack("[o]", access_location(r, v, is_second, when));
}

static json_int_t times_of(struct race_report *r, const struct race_view *v)
{
	uint64_t times;

	race_group_others(r, v, &times);
	return sarif_count(times);
}

static json_t *result(struct race_report *r, const struct race_view *v)
{
	static const char *const levels[] = { "error", "warning", "note" };
	const char grade[] = { "ABC"[v->grade], '\0' };
	size_t rule = 0;

	while (rule + 1 < FAILURE_RULE && strcmp(rules[rule].id + 5, race_kind(&v->record)) != 0)
		rule++;
	json_t *j = json_pack("{s:s, s:i, s:s, s:o, s:o, s:o, s:{s:s}, s:I, s:{s:s, s:o}}",
			      "ruleId", rules[rule].id, "ruleIndex", (int)rule, "level",
			      levels[v->grade], "message", result_message(v), "locations",
			      main_location(r, v, in_race), "relatedLocations",
			      related(r, v, in_race), "partialFingerprints", "traplineRace/v1",
			      v->fingerprint, "occurrenceCount", times_of(r, v), "properties",
			      "grade", grade, "variable", finding_json_text(v->variable));
	if (v->varied[0])
		json_object_set_new(json_object_get(j, "properties"), "varied",
				    race_json_varied(v));
	json_object_set_new(json_object_get(j, "properties"), "also", race_json_also(r, v));
	json_t *flows = code_flows(r, v, in_race);
	if (flows)
		json_object_set_new(j, "codeFlows", flows);
	sarif_policy(j, race_report_policy(r)->baseline, v->is_baselined, v->suppressed);
	return j;
}

static json_t *failure_message(const struct race_failures *all, const struct race_failure *failure)
{
	char text[700];

	snprintf(
		text, sizeof(text),
		"The program fails when a thread is stalled: %s in %llu of %llu runs with stalls, and in "
		"none of %llu without. The last stall before it was in %s.",
		failure->outcome, (unsigned long long)failure->runs, (unsigned long long)all->runs,
		(unsigned long long)all->undisturbed_runs,
		failure->stall.first.head[0] ? failure->stall.first.head : "?");
	return sarif_message(text);
}

static json_t *failure_result(struct race_report *r, const struct race_failures *all,
			      const struct race_failure *failure)
{
	const struct race_view *v = &failure->stall;
	json_t *j = json_pack(
		"{s:s, s:i, s:s, s:o, s:o, s:o, s:{s:s}, s:I, s:{s:s, s:s, s:I, s:I}}", "ruleId",
		rules[FAILURE_RULE].id, "ruleIndex", (int)FAILURE_RULE, "level", "warning",
		"message", failure_message(all, failure), "locations",
		main_location(r, v, in_failure), "relatedLocations", related(r, v, in_failure),
		"partialFingerprints", "traplineFailure/v1", failure->known_as, "occurrenceCount",
		sarif_count(failure->runs), "properties", "outcome", failure->outcome,
		"fingerprint", failure->fingerprint, "runs", (json_int_t)all->runs,
		"undisturbedRuns", (json_int_t)all->undisturbed_runs);
	json_t *flows = code_flows(r, v, in_failure);

	if (v->varied[0])
		json_object_set_new(json_object_get(j, "properties"), "varied",
				    race_json_varied(v));
	if (flows)
		json_object_set_new(j, "codeFlows", flows);
	sarif_policy(j, race_report_policy(r)->baseline, failure->is_baselined, NULL);
	return j;
}

static json_t *results(struct race_report *r, const struct race_sarif *what)
{
	const struct race_failures *failures = what->failures;
	json_t *list = json_array();

	for (size_t i = 0; i < race_report_count(r); i++) {
		const struct race_view *v = race_report_view(r, i);

		if (!v->head && race_verdict(v, what->grade_max) != RACE_BELOW_GRADE)
			json_array_append_new(list, result(r, v));
	}
	/* Without a stall there is no location to show. */
	for (size_t i = 0; i < failures->count; i++)
		if (race_failure_is_provoked(failures, &failures->rows[i]) &&
		    failures->rows[i].stalls)
			json_array_append_new(list,
					      failure_result(r, failures, &failures->rows[i]));
	return list;
}

int race_print_sarif(struct race_report *r, const struct race_sarif *what,
		     const struct sarif_run *run, FILE *f)
{
	return sarif_print(run, rules_list(), results(r, what),
			   race_summary_object(r, what->totals, what->grade_max), f);
}
