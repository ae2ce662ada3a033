/* SPDX-License-Identifier: MIT */
/* race_text.c - a race as text for people. */
#include "record/race_words.h"
#include "report/race/race_report.h"

#include "report/plural.h"
#include "report/run/run_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX (RACE_FRAMES * RACE_INLINED)

static const char *const grade_words[] = { "definite", "likely", "probably intentional" };

struct frames {
	struct run_frame list[FRAMES_MAX];
	size_t count;
};

static void race_text_add_frames(struct race_report *r, uint64_t at, bool after, struct frames *to)
{
	to->count += race_run_frames(r, at, after, to->list + to->count, FRAMES_MAX - to->count);
}

void race_print_side(struct race_report *r, const struct race_side *side,
		     const struct race_access_place *a, const char *when, FILE *f)
{
	struct frames frames = { .count = 0 };

	fprintf(f, "  %s of %" PRIu32 " byte%s at 0x%" PRIx64 " by thread %" PRId32,
		race_side_access_name(side), side->size, plural(side->size), side->address,
		side->tid);
	if (side->thread[0])
		fprintf(f, " (%s)", side->thread);
	if (a->via)
		fprintf(f, ", in %s", a->via);
	if (!(side->flags & RACE_DECODED))
		fputs(", by the instruction before frame #0", f);
	fprintf(f, ", %s:\n", when);
	for (uint32_t i = a->frame; i < side->frame_count; i++) {
		bool after;
		uint64_t at = race_frame(side, i, &after);

		race_text_add_frames(r, at, after, &frames);
	}
	run_text_frames(f, frames.list,
			run_frames_shown(frames.count, race_report_policy(r)->frames_max));
}

static void print_heap_event(struct race_report *r, const struct race_heap_event *event,
			     const char *what, FILE *f)
{
	struct frames frames = { .count = 0 };

	fprintf(f, "%s by thread %" PRId32, what, event->tid);
	if (event->thread[0])
		fprintf(f, " (%s)", event->thread);
	fputs(event->frame_count ? ":\n" : ", stack not recorded\n", f);
	for (uint32_t i = 0; i < event->frame_count; i++)
		race_text_add_frames(r, event->frames[i], true, &frames);
	run_text_frames(f, frames.list,
			run_frames_shown(frames.count, race_report_policy(r)->frames_max));
}

static void print_block(struct race_report *r, const struct race_record *record, FILE *f)
{
	const struct race_heap *heap = &record->heap;

	fprintf(f,
		"  heap block of %" PRIu64 " byte%s at 0x%" PRIx64 ", race at offset %" PRIu64 ", ",
		heap->size, plural(heap->size), heap->start, record->address - heap->start);
	print_heap_event(r, &heap->allocated,
			 race_heap_is_new(record) ? "allocated during the stall" : "allocated", f);
	if (heap->freed.time_ns)
		print_heap_event(r, &heap->freed, "  freed", f);
}

/* What kind of memory it is, which matters where it is not a variable. */
static void print_memory(struct race_report *r, const struct race_record *record, FILE *f)
{
	if (record->has_heap) {
		print_block(r, record, f);
		return;
	}
	switch (record->memory) {
	case RACE_MEMORY_HEAP:
	case RACE_MEMORY_ANONYMOUS:
		if (race_report_has_heap(r))
			fputs("  not in a heap block that --heap recorded: allocated before the search, "
			      "or not with malloc\n",
			      f);
		else if (record->memory == RACE_MEMORY_HEAP)
			fputs("  heap memory; --heap reports where it was allocated\n", f);
		else
			fputs("  heap or other anonymous memory; --heap reports where it was allocated\n",
			      f);
		break;
	case RACE_MEMORY_STACK:
		fputs("  on the stack of a thread\n", f);
		break;
	case RACE_MEMORY_SHARED:
		fputs("  memory that is shared with other processes\n", f);
		break;
	default:
		break;
	}
}

static void print_head(const struct race_view *v, bool has_color, FILE *f)
{
	fprintf(f, "%srace %c: %s", has_color ? "\033[1m" : "", "ABC"[v->grade],
		race_kind(&v->record));
	if (v->variable[0])
		fprintf(f, " of %s", v->variable);
	fprintf(f, " in %s", v->first.head[0] ? v->first.head : "?");
	if (strcmp(v->first.head, v->second.head) != 0 && v->second.head[0])
		fprintf(f, " / %s", v->second.head);
	fprintf(f, " (%s: %s) [%s]%s\n", grade_words[v->grade], v->why, v->fingerprint,
		has_color ? "\033[0m" : "");
}

void race_print_text(struct race_report *r, const struct race_view *v, bool has_color, FILE *f)
{
	const struct race_record *record = &v->record;

	print_head(v, has_color, f);
	race_print_side(r, &record->first, &v->first, "stalled before it", f);
	if (record->flags & RACE_UNKNOWN_ORIGIN)
		fputs("  the value changed during the stall, but no thread was seen writing it (system "
		      "call or other process)\n",
		      f);
	else
		race_print_side(r, &record->second, &v->second, "during the stall", f);
	fprintf(f,
		"  value of %" PRIu32 " byte%s at 0x%" PRIx64 ": 0x%" PRIx64 " -> 0x%" PRIx64
		", %" PRIu64 " us after the stall began\n",
		record->len, plural(record->len), record->address, record->old_value,
		record->new_value, record->stalled_ns / 1000);
	print_memory(r, record, f);
	if (v->varied[0]) {
		fputs("  first seen with ", f);
		for (const char *c = v->varied; *c; c++)
			*c == '\n' ? fputs(", ", f) : fputc(*c, f);
		fputc('\n', f);
	}
	/* It begins in the first column, so that it can be copied into a file. */
	char *suppression = race_suppression(r, v);
	if (suppression)
		fprintf(f, "%s\n", suppression);
	fputc('\n', f);
	free(suppression);
}
