/* SPDX-License-Identifier: MIT */
/*
 * flow_sarif.c - flows as SARIF 2.1.0 (report/finding/sarif.h). A kind is a rule, a grade is a
 * level. A result is at the sink, or at what wrote a residue. Its code flow leads there from the
 * source, by each function that wrote the bytes.
 */
#include "report/flow/flow_report.h"

#include <limits.h>
#include <string.h>

#define PATH_MAX_STEPS 64

static const char help[] =
	"Grade A (warning): the bytes were moved only, and are equal to those of the source. Grade B "
	"(note): they were computed from them. Grade C (note): they were looked up in a table with "
	"such a byte as the index.";
#define TAGS                            \
	{                               \
		"security", "data-flow" \
	}
static const struct sarif_rule rules[FLOW_KINDS] = {
	[FLOW_COPY] = { "flow/copy", "BytesReachSink",
			"Bytes of a source reach a sink as they are.", help, "warning", TAGS },
	[FLOW_COMPUTED] = { "flow/computed", "ComputedBytesReachSink",
			    "A sink gets what was computed from bytes of a source.", help, "note",
			    TAGS },
	[FLOW_RESIDUE] = { "flow/residue", "BytesStay",
			   "Bytes of a source lie in memory at the end.", help, "warning", TAGS },
};

static json_t *flow_rules(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < FLOW_KINDS; i++)
		json_array_append_new(list, sarif_rule(&rules[i]));
	return list;
}

static json_t *stack_location(struct flow_report *r, const struct flow_stack *stack,
			      const char *text)
{
	struct flow_where where;

	flow_report_where(r, stack, &where);
	return sarif_finding_location(flow_report_places(r), &where.in, text);
}

static void add_point(struct flow_report *r, const struct flow_stack *stack, const char *text,
		      json_t *list)
{
	json_array_append_new(list, json_pack("{s:o}", "location", stack_location(r, stack, text)));
}

/* The order counts, also where threads pass the bytes on: so it is one flow. */
static json_t *code_flow(struct flow_report *r, const struct flow_record *record)
{
	const struct flow_source *source = flow_report_source(r, record->source);
	uint32_t path[PATH_MAX_STEPS];
	const uint32_t n = flow_report_path(r, record->step, path, PATH_MAX_STEPS);
	json_t *list = json_array();
	char text[100];

	snprintf(text, sizeof(text), "source: %s", source->name);
	add_point(r, &source->stack, text, list);
	for (uint32_t i = 0; i < n; i++) {
		const struct flow_step *step = flow_report_step(r, path[i]);

		add_point(r, &step->stack, flow_step_is_computed(step) ? "computed" : "copied",
			  list);
	}
	snprintf(text, sizeof(text), "sink: %s", record->name);
	if (record->kind != FLOW_RESIDUE)
		add_point(r, &record->stack, text, list);
	return json_pack("[{s:[{s:o}]}]", "threadFlows", "locations", list);
}

static json_t *stack_of(struct flow_report *r, const struct flow_stack *stack, const char *text)
{
	struct run_frame frames[FLOW_STACK_MAX];

	return sarif_stack(frames, flow_report_frames(r, stack, frames), text);
}

static json_t *flow_message(struct flow_report *r, const struct flow_record *record,
			    const struct flow_stack *last)
{
	const struct flow_source *source = flow_report_source(r, record->source);
	struct flow_where from;
	struct flow_where to;
	char text[900];

	flow_report_where(r, &source->stack, &from);
	flow_report_where(r, last, &to);
	if (record->kind == FLOW_RESIDUE)
		snprintf(
			text, sizeof(text),
			"Bytes of %s in %s lie in memory at the end (%s), written in %s. Grade %s.",
			source->name, from.name, flow_memory_names[record->memory], to.name,
			flow_grade_names[record->grade]);
	else
		snprintf(text, sizeof(text), "%s of %s in %s: %s gets them in %s. Grade %s.",
			 record->kind == FLOW_COPY ? "Bytes" : "What was computed from bytes",
			 source->name, from.name, record->name, to.name,
			 flow_grade_names[record->grade]);
	return sarif_message(text);
}

static json_t *flow_result(struct flow_report *r, const struct flow_view *v, uint64_t count,
			   bool has_baseline)
{
	const struct flow_record *record = &v->record;
	const struct flow_source *source = flow_report_source(r, record->source);
	const struct flow_stack *end = flow_report_last(r, record);
	const struct flow_stack *last = end ? end : &source->stack;
	json_t *stacks = json_array();

	json_array_append_new(stacks, stack_of(r, &source->stack, "source"));
	if (end)
		json_array_append_new(stacks, stack_of(r, end, flow_kind_names[record->kind]));
	json_t *j = json_pack("{s:s, s:i, s:s, s:o, s:[o], s:o, s:o, s:{s:s}, s:I, s:{s:s}}",
			      "ruleId", rules[record->kind].id, "ruleIndex", (int)record->kind,
			      "level", record->kind == FLOW_COMPUTED ? "note" : "warning",
			      "message", flow_message(r, record, last), "locations",
			      stack_location(r, last, NULL), "codeFlows", code_flow(r, record),
			      "stacks", stacks, "partialFingerprints", "traplineFlow/v1",
			      v->fingerprint, "occurrenceCount", sarif_count(count), "properties",
			      "grade", flow_grade_names[record->grade]);

	sarif_policy(j, has_baseline, v->is_baselined, v->suppressed);
	return j;
}

static bool is_same_flow(const struct flow_view *a, const struct flow_view *b)
{
	return !strcmp(a->fingerprint, b->fingerprint) && a->suppressed == b->suppressed;
}

/* A residue has a view for each block and process, which are one result. 0: it is counted. */
static uint64_t count_flow(struct flow_report *r, size_t at)
{
	const struct flow_view *v = flow_report_view(r, at);
	uint64_t count = 0;

	for (size_t i = 0; i < flow_report_count_all(r); i++) {
		const struct flow_view *other = flow_report_view(r, i);

		if (!is_same_flow(v, other))
			continue;
		if (i < at)
			return 0;
		count += other->record.count;
	}
	return count ? count : 1;
}

int flow_print_sarif(struct flow_report *r, const struct sarif_run *run, bool has_baseline, FILE *f)
{
	json_t *list = json_array();

	for (size_t i = 0; i < flow_report_count_all(r); i++) {
		const uint64_t count = count_flow(r, i);

		if (count)
			json_array_append_new(list, flow_result(r, flow_report_view(r, i), count,
								has_baseline));
	}
	return sarif_print(run, flow_rules(), list, flow_summary_object(r), f);
}
