/* SPDX-License-Identifier: MIT */
/* flow_known.c - flows that are not to be reported: suppressed ones, and those of a baseline. */
#include "report/flow/flow_report_priv.h"

#include "report/finding/finding_stack.h"

#include <errno.h>
#include <stdlib.h>

#define STEPS_MAX 64
#define STACKS_MAX (STEPS_MAX + 2)

_Static_assert(FLOW_FRAMES <= FINDING_FRAMES, "a stack has room");

/* Stacks of one flow. */
struct flow_stacks {
	struct finding_stack rooms[STACKS_MAX];
	struct suppress_stack stacks[STACKS_MAX];
	size_t count;
};

static void add_stack(struct flow_report *r, const struct flow_stack *stack,
		      struct flow_stacks *out)
{
	finding_stack_fill(r->places, stack->frames, stack->count, true, UINT_MAX,
			   &out->rooms[out->count], &out->stacks[out->count]);
	out->count++;
}

/* A function that cleans the bytes is on their path: so each step counts, not only both ends. */
static const struct suppression *flow_suppressed(struct flow_report *r, struct suppressions *s,
						 const struct flow_view *v,
						 struct flow_stacks *stacks)
{
	const struct flow_record *record = &v->record;
	const struct flow_source *source = flow_report_source(r, record->source);
	uint32_t path[STEPS_MAX];
	const uint32_t n = flow_report_path(r, record->step, path, STEPS_MAX);

	stacks->count = 0;
	add_stack(r, &source->stack, stacks);
	for (uint32_t i = 0; i < n; i++)
		add_stack(r, &flow_report_step(r, path[i])->stack, stacks);
	if (record->kind != FLOW_RESIDUE)
		add_stack(r, &record->stack, stacks);
	const struct suppress_finding flow = {
		.tool = SUPPRESS_FLOWS,
		.stacks = stacks->stacks,
		.stack_count = stacks->count,
		.names = { source->name, record->name },
	};
	return suppressions_match(s, &flow);
}

static int suppress_flows(struct flow_report *r, struct suppressions *s)
{
	if (!suppressions_count(s) || !r->count)
		return 0;
	struct flow_stacks *stacks = malloc(sizeof(*stacks));
	if (!stacks)
		return -ENOMEM;
	for (size_t i = 0; i < r->count; i++)
		r->views[i].suppressed = flow_suppressed(r, s, &r->views[i], stacks);
	free(stacks);
	return 0;
}

static bool is_shown(const struct flow_view *v)
{
	return !v->suppressed && !v->is_baselined;
}

static int sort_views(struct flow_report *r)
{
	struct flow_view *sorted = calloc(r->count + 1, sizeof(*sorted));
	size_t n = 0;

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < r->count; i++)
		if (is_shown(&r->views[i]))
			sorted[n++] = r->views[i];
	r->shown = n;
	for (size_t i = 0; i < r->count; i++)
		if (!is_shown(&r->views[i]))
			sorted[n++] = r->views[i];
	free(r->views);
	r->views = sorted;
	return 0;
}

int flow_report_policy(struct flow_report *r, struct suppressions *s, struct baseline *b)
{
	const int err = suppress_flows(r, s);

	for (size_t i = 0; i < r->count; i++)
		r->views[i].is_baselined = baseline_see(b, r->views[i].fingerprint);
	return err ? err : sort_views(r);
}

/* Names of the source and of the end; the bytes and paths of files stay out of it. */
static int add_to_baseline(struct baseline *b, struct flow_report *r, const struct flow_view *v,
			   size_t *added)
{
	const struct flow_record *record = &v->record;
	const struct flow_source *source = flow_report_source(r, record->source);
	const struct flow_stack *last = flow_report_last(r, record);
	struct flow_where from;
	struct flow_where to = { .via = "" };
	char text[800];

	flow_report_where(r, &source->stack, &from);
	if (last)
		flow_report_where(r, last, &to);
	snprintf(text, sizeof(text), "%s %s: %s in %s, %s%s%s", flow_grade_names[record->grade],
		 flow_kind_names[record->kind], source->name, from.name,
		 record->kind == FLOW_RESIDUE ? flow_memory_names[record->memory] : record->name,
		 to.name[0] ? " in " : "", to.name);
	return baseline_add(b, v->fingerprint, text, added);
}

int flow_baseline_write(struct baseline *b, struct flow_report *r, const char *path, size_t *added)
{
	*added = 0;
	for (size_t i = 0; i < r->shown; i++) {
		int err = add_to_baseline(b, r, &r->views[i], added);

		if (err)
			return err;
	}
	return baseline_save(b, "flows", "flow", path);
}
