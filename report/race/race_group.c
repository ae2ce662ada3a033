/* SPDX-License-Identifier: MIT */
/* race_group.c - see race_group.h. */
#include "report/race/race_group.h"

#include "report/files/headline.h"

#include <stdio.h>
#include <string.h>

#define CALLERS_OF_MALLOC 3u
#define INLINED_MAX 16u
#define PAGE_BYTES 4096u

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

/* The outermost function of a stack that the user wrote: main(), or that of a thread. */
static void outer_function(struct race_report *r, const struct race_side *side, char *buf, size_t n)
{
	struct place places[INLINED_MAX];
	bool after;

	*buf = '\0';
	for (uint32_t i = side->frame_count; i-- && !*buf;) {
		uint64_t at = race_frame(side, i, &after);
		size_t count = race_frames(r, at, after, places, INLINED_MAX);
		const struct place *p = count ? &places[count - 1] : NULL;

		if (p && p->function && strcmp(p->function, "_start") != 0 &&
		    headline_is_written(p))
			snprintf(buf, n, "%s", p->function);
	}
}

static bool is_same_outer_pair(struct race_report *r, const struct race_view *a,
			       const struct race_view *b)
{
	char one[2][256];
	char two[2][256];

	outer_function(r, &a->record.first, one[0], sizeof(one[0]));
	outer_function(r, &a->record.second, one[1], sizeof(one[1]));
	outer_function(r, &b->record.first, two[0], sizeof(two[0]));
	outer_function(r, &b->record.second, two[1], sizeof(two[1]));
	return one[0][0] && one[1][0] &&
	       ((!strcmp(one[0], two[0]) && !strcmp(one[1], two[1])) ||
		(!strcmp(one[0], two[1]) && !strcmp(one[1], two[0])));
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

/*
 * Another run has its memory at other addresses, with the same offset in the page. Known blocks are
 * compared by their allocation.
 */
static bool is_same_in_another_run(const struct race_view *a, const struct race_view *b)
{
	return !a->variable[0] && !b->variable[0] && !a->record.has_heap && !b->record.has_heap &&
	       a->record.pid != b->record.pid && a->record.memory == b->record.memory &&
	       a->record.address % PAGE_BYTES == b->record.address % PAGE_BYTES;
}

/*
 * One object without a lock races in all functions that access it. So the functions that begin the
 * two stacks decide, where they are known.
 */
static bool is_same_cause(struct race_report *r, const struct race_view *a,
			  const struct race_view *b)
{
	bool is_pair = is_same_pair(a, b);

	if (is_same_memory(a, b))
		return is_pair || is_same_outer_pair(r, a, b);
	return is_pair && is_same_in_another_run(a, b);
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
		    is_same_cause(r, other, v)) {
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
