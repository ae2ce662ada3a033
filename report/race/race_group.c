/* SPDX-License-Identifier: MIT */
/* race_group.c - see race_group.h. */
#include "report/race/race_group.h"

#include <string.h>

#define CALLERS_OF_MALLOC 3u

static bool is_same_function(const struct race_access_place *a, const struct race_access_place *b)
{
	const char *one = a->place.module ? a->place.module : "";
	const char *two = b->place.module ? b->place.module : "";

	return a->function[0] && !strcmp(a->function, b->function) && !strcmp(one, two);
}

static bool is_same_pair(const struct race_view *a, const struct race_view *b)
{
	return (is_same_function(&a->first, &b->first) &&
		is_same_function(&a->second, &b->second)) ||
	       (is_same_function(&a->first, &b->second) && is_same_function(&a->second, &b->first));
}

/* "table+0x40" is a part of table. */
static bool is_same_name(const struct race_view *a, const struct race_view *b)
{
	size_t length = strcspn(a->variable, "+");

	return length && length == strcspn(b->variable, "+") &&
	       !strncmp(a->variable, b->variable, length) &&
	       a->record.place >> RACE_PLACE_BITS == b->record.place >> RACE_PLACE_BITS;
}

/* Blocks that one location of the program allocates contain one kind of object. */
static bool is_same_allocation(const struct race_record *a, const struct race_record *b)
{
	const struct race_heap_event *one = &a->heap.allocated;
	const struct race_heap_event *two = &b->heap.allocated;
	uint32_t n = one->frame_count < CALLERS_OF_MALLOC ? one->frame_count : CALLERS_OF_MALLOC;

	return a->has_heap && b->has_heap && n && two->frame_count >= n &&
	       !memcmp(one->frames, two->frames, n * sizeof(one->frames[0]));
}

static bool is_same_memory(const struct race_view *a, const struct race_view *b)
{
	if (a->variable[0] || b->variable[0])
		return is_same_name(a, b);
	if (is_same_allocation(&a->record, &b->record))
		return true;
	return a->record.pid == b->record.pid && a->record.address == b->record.address;
}

static bool is_head(const struct race_view *v, enum race_grade grade_max)
{
	return v->is_told && !v->head && race_verdict(v, grade_max) == RACE_SHOWN;
}

bool race_group_join(struct race_report *r, struct race_view *v, enum race_grade grade_max)
{
	v->head = NULL;
	v->is_told = true;
	for (size_t i = 0; !race_report_policy(r)->is_each && i < race_report_count(r); i++) {
		const struct race_view *other = race_report_view(r, i);

		if (other != v && is_head(other, grade_max) && other->grade <= v->grade &&
		    is_same_memory(other, v) && is_same_pair(other, v)) {
			v->head = other;
			return true;
		}
	}
	return false;
}

void race_group_all(struct race_report *r, enum race_grade grade_max)
{
	for (size_t i = 0; i < race_report_count(r); i++)
		race_report_view(r, i)->is_told = false;
	for (int grade = RACE_GRADE_A; grade <= (int)grade_max; grade++) {
		for (size_t i = 0; i < race_report_count(r); i++) {
			struct race_view *v = race_report_view(r, i);

			if ((int)v->grade == grade && race_verdict(v, grade_max) == RACE_SHOWN)
				race_group_join(r, v, grade_max);
		}
	}
}

void race_group_release(struct race_report *r, enum race_grade grade_max)
{
	for (size_t i = 0; i < race_report_count(r); i++) {
		struct race_view *v = race_report_view(r, i);

		if (v->head && (race_verdict(v->head, grade_max) != RACE_SHOWN ||
				race_verdict(v, grade_max) != RACE_SHOWN)) {
			v->head = NULL;
			v->is_told = false;
		}
	}
}

size_t race_group_others(struct race_report *r, const struct race_view *head, uint64_t *times)
{
	size_t others = 0;

	*times = race_report_times(r, head);
	for (size_t i = 0; i < race_report_count(r); i++) {
		const struct race_view *v = race_report_view(r, i);

		if (v->head != head)
			continue;
		others++;
		*times += race_report_times(r, v);
	}
	return others;
}
