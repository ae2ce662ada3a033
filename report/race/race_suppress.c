/* SPDX-License-Identifier: MIT */
/*
 * race_suppress.c - a race as suppressions see it, and suppressions for races that were found.
 *
 * Asked for each record before it joins its race: a race counts as suppressed while all the stacks
 * that it was seen with are.
 */
#include "report/race/race_report.h"

#include "report/finding/finding_stack.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(RACE_FRAMES <= FINDING_FRAMES, "a stack has room");

static void fill_stack(struct race_report *r, const struct race_side *side, uint32_t top,
		       struct finding_stack *room, struct suppress_stack *out)
{
	finding_stack_fill(race_places(r), side->frames, side->frame_count,
			   side->flags & RACE_DECODED, top, room, out);
}

const struct suppression *race_suppressed(struct race_report *r, const struct race_view *v)
{
	struct suppressions *s = race_report_policy(r)->suppressions;
	struct suppress_stack stacks[2] = { 0 };
	struct suppress_finding race = { .tool = SUPPRESS_RACES,
					 .stacks = stacks,
					 .stack_count = 2 };
	char variable[sizeof(v->variable)];

	if (!suppressions_count(s))
		return NULL;
	/* "table+0x40": the variable is table. */
	snprintf(variable, sizeof(variable), "%s", v->variable);
	variable[strcspn(variable, "+")] = '\0';
	race.names[0] = variable;
	struct finding_stack *rooms = calloc(2, sizeof(*rooms));
	if (!rooms)
		return NULL;
	fill_stack(r, &v->record.first, v->first.frame, &rooms[0], &stacks[0]);
	if (!(v->record.flags & RACE_UNKNOWN_ORIGIN))
		fill_stack(r, &v->record.second, v->second.frame, &rooms[1], &stacks[1]);
	const struct suppression *by = suppressions_match(s, &race);
	free(rooms);
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
