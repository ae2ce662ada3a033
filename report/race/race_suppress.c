/* SPDX-License-Identifier: MIT */
/*
 * race_suppress.c - a race as suppressions see it, and suppressions for races that were found.
 *
 * Asked for each record before it joins its race: a race counts as suppressed while all the stacks
 * that it was seen with are.
 */
#include "report/race/race_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX (RACE_FRAMES * RACE_INLINED)
#define PATH_BYTES 512

/* The stacks of one race, with what their frames point to. */
struct stacks {
	struct suppress_frame frames[2][FRAMES_MAX];
	char paths[2][RACE_FRAMES][PATH_BYTES];
};

static void add_places(struct suppress_stack *stack, struct suppress_frame *frames,
		       const struct place *places, size_t count, const char *path)
{
	for (size_t i = 0; i < count; i++)
		frames[stack->count++] = (struct suppress_frame){
			.function = places[i].function,
			.symbol = places[i].symbol,
			.source = places[i].file,
			.line = places[i].line,
			.module = places[i].module,
			.path = *path ? path : NULL,
			.is_inlined = i + 1 < count,
		};
}

static void fill_stack(struct race_report *r, const struct race_side *side, uint32_t top,
		       struct suppress_frame *frames, char (*paths)[PATH_BYTES],
		       struct suppress_stack *stack)
{
	struct place places[RACE_INLINED];
	bool after;

	stack->frames = frames;
	for (uint32_t i = 0; i < side->frame_count; i++) {
		uint64_t at = race_frame(side, i, &after);
		size_t count = race_frames(r, at, after, places, RACE_INLINED);

		race_path(r, at, paths[i], PATH_BYTES);
		if (i == top)
			stack->top = stack->count;
		add_places(stack, frames, places, count, paths[i]);
	}
}

const struct suppression *race_suppressed(struct race_report *r, const struct race_view *v)
{
	struct suppressions *s = race_report_policy(r)->suppressions;
	struct suppress_race race = { .variable = v->variable[0] ? v->variable : NULL };
	char variable[sizeof(v->variable)];

	if (!suppressions_count(s))
		return NULL;
	/* "table+0x40": the variable is table. */
	snprintf(variable, sizeof(variable), "%s", v->variable);
	variable[strcspn(variable, "+")] = '\0';
	race.variable = variable;
	struct stacks *stacks = malloc(sizeof(*stacks));
	if (!stacks)
		return NULL;
	fill_stack(r, &v->record.first, v->first.frame, stacks->frames[0], stacks->paths[0],
		   &race.stacks[0]);
	if (!(v->record.flags & RACE_UNKNOWN_ORIGIN))
		fill_stack(r, &v->record.second, v->second.frame, stacks->frames[1],
			   stacks->paths[1], &race.stacks[1]);
	const struct suppression *by = suppressions_match(s, &race);
	free(stacks);
	return by;
}

void race_suppression_uses(struct race_report *r, const struct suppression *s,
			   enum race_grade grade_max, size_t *races, uint64_t *times)
{
	*races = 0;
	*times = 0;
	for (size_t i = 0; i < race_report_count(r); i++) {
		const struct race_view *v = race_report_view(r, i);

		if (v->suppressed != s || race_verdict(v, grade_max) != RACE_SUPPRESSED)
			continue;
		++*races;
		*times += race_report_times(r, v);
	}
}

/* The side that it goes by: the same one in every run, whichever came first. */
static bool goes_by_first(const struct race_view *v)
{
	const struct race_access_place *one = &v->first;
	const struct race_access_place *two = &v->second;

	if (v->record.flags & RACE_UNKNOWN_ORIGIN || !two->function[0])
		return one->function[0] || !two->place.module;
	return one->function[0] && strcmp(one->function, two->function) <= 0;
}

static char *line_of(const struct race_access_place *a)
{
	char *text = NULL;
	const char *name = a->function[0] ? a->function : a->place.module;

	if (!name || asprintf(&text, "race_top:^%s$", name) < 0)
		return NULL;
	return text;
}

char *race_suppression(struct race_report *r, const struct race_view *v)
{
	return race_report_policy(r)->gives_suppressions ?
		       line_of(goes_by_first(v) ? &v->first : &v->second) :
		       NULL;
}
