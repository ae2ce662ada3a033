/* SPDX-License-Identifier: MIT */
/*
 * heap_sarif.c - heap errors as SARIF 2.1.0 (report/finding/sarif.h). A kind is a rule, a grade is
 * a level. A result is at the access or the wrong free; allocation and free are related locations,
 * with stacks.
 */
#include "report/heap/heap_report.h"

#include <string.h>

static const char help[] = "Grade A (error): the access or the wrong free itself was caught. "
			   "Grade B (warning): its trace was found later.";
#define RULE(id_, name_, about_)                   \
	{                                          \
		id_, name_, about_, help, "error", \
		{                                  \
			"memory", "heap"           \
		}                                  \
	}
static const struct sarif_rule rules[HEAP_KINDS] = {
	[HEAP_USE_AFTER_FREE] = RULE("heap/use-after-free", "UseAfterFree",
				     "A freed heap block is read or written."),
	[HEAP_DOUBLE_FREE] = RULE("heap/double-free", "DoubleFree", "A heap block is freed twice."),
	[HEAP_INVALID_FREE] =
		RULE("heap/invalid-free", "InvalidFree",
		     "An address is freed that is not the start of a heap block, or a "
		     "block by the wrong operator."),
	[HEAP_OVERFLOW] = RULE("heap/overflow", "HeapOverflow",
			       "Memory behind a heap block is read or written."),
	[HEAP_UNDERFLOW] = RULE("heap/underflow", "HeapUnderflow",
				"Memory before a heap block is read or written."),
	[HEAP_CORRUPTION] = RULE("heap/corruption", "HeapCorruption",
				 "The C library noticed that memory of the heap was damaged, and "
				 "ended the program."),
};
#undef RULE

static json_t *heap_rules(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < HEAP_KINDS; i++)
		json_array_append_new(list, sarif_rule(&rules[i]));
	return list;
}

static json_t *stack_of(struct heap_report *r, const struct heap_moment *m, bool is_access,
			const char *text)
{
	struct run_frame frames[HEAP_STACK_MAX];

	return sarif_stack(frames, heap_report_frames(r, m, is_access, frames), text);
}

static json_t *heap_message(const struct heap_view *v)
{
	const struct heap_record *record = &v->record;
	char where[128];
	char text[800];

	heap_report_where(v, where, sizeof(where));
	snprintf(text, sizeof(text), "%s: %s%s%s, in %s. Grade %c.", rules[record->kind].name,
		 record->message[0] ? "" : heap_access_names[record->access],
		 record->message[0] ? "" : " ", where,
		 v->first.function[0] ? v->first.function : "?", "AB"[record->grade]);
	return sarif_message(text);
}

static void add_moment(struct heap_report *r, const struct heap_moment *m,
		       const struct finding_place *p, const char *what, json_t *related,
		       json_t *stacks)
{
	char text[160];

	if (!m->time_ns || !m->frame_count)
		return;
	snprintf(text, sizeof(text), "%s by thread %d%s%s%s", what, m->tid,
		 m->thread[0] ? " (" : "", m->thread, m->thread[0] ? ")" : "");
	json_t *at = sarif_finding_location(heap_report_places(r), p, text);
	json_object_set_new(at, "id", json_integer((json_int_t)json_array_size(related) + 1));
	json_array_append_new(related, at);
	json_array_append_new(stacks, stack_of(r, m, false, text));
}

static json_t *heap_result(struct heap_report *r, const struct heap_view *v, bool has_baseline)
{
	const struct heap_record *record = &v->record;
	const struct finding_place *main = v->first.at ? &v->first :
					   v->freed.at ? &v->freed :
							 &v->alloc;
	const char grade[] = { "AB"[record->grade], '\0' };
	json_t *related = json_array();
	json_t *stacks = json_array();

	if (record->first.frame_count)
		json_array_append_new(stacks, stack_of(r, &record->first, record->ip != 0,
						       heap_kind_names[record->kind]));
	add_moment(r, &record->alloc, &v->alloc, "allocated", related, stacks);
	add_moment(r, &record->freed, &v->freed, "freed", related, stacks);
	json_t *at = sarif_finding_location(heap_report_places(r), main, NULL);
	json_t *j = json_pack("{s:s, s:i, s:s, s:o, s:[o], s:o, s:o, s:{s:s}, s:I, s:{s:s}}",
			      "ruleId", rules[record->kind].id, "ruleIndex", (int)record->kind,
			      "level", record->grade ? "warning" : "error", "message",
			      heap_message(v), "locations", at, "relatedLocations", related,
			      "stacks", stacks, "partialFingerprints", "traplineHeap/v1",
			      v->fingerprint, "occurrenceCount", sarif_count(v->count),
			      "properties", "grade", grade);

	sarif_policy(j, has_baseline, v->is_baselined, v->suppressed);
	return j;
}

int heap_print_sarif(struct heap_report *r, const struct heap_totals *t,
		     const struct sarif_run *run, bool has_baseline, FILE *f)
{
	json_t *list = json_array();

	for (size_t i = 0; i < heap_report_count(r); i++)
		json_array_append_new(list, heap_result(r, heap_report_view(r, i), has_baseline));
	return sarif_print(run, heap_rules(), list, heap_summary_object(t), f);
}
