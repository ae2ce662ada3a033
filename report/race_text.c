// SPDX-License-Identifier: MIT
/* race_text.c - races for people. */
#include "report/race.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char grade_letters[] = "ABC";

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void print_place(const struct place *p, uint64_t address, FILE *f)
{
	if (p->function && p->offset)
		fprintf(f, "%s+0x%" PRIx64, p->function, p->offset);
	else if (p->function)
		fputs(p->function, f);
	else if (p->module)
		fprintf(f, "%s+0x%" PRIx64, p->module, p->module_offset);
	else
		fprintf(f, "0x%" PRIx64, address);
	if (p->file)
		fprintf(f, " at %s:%d", base_name(p->file), p->line);
	else if (p->function && p->module)
		fprintf(f, " in %s", p->module);
}

static void print_frame(struct race_report *r, uint64_t at, bool after, size_t *number, FILE *f)
{
	struct place places[RACE_INLINED];
	size_t count = race_frames(r, at, after, places, RACE_INLINED);

	for (size_t k = 0; k < count; k++) {
		fprintf(f, "    #%-2zu ", (*number)++);
		print_place(&places[k], at & RACE_PLACE_MASK, f);
		fputs(k + 1 < count ? " (inlined)\n" : "\n", f);
	}
}

static void print_side(struct race_report *r, const struct race_side *side,
		       const struct race_access_place *a, const char *when, FILE *f)
{
	size_t number = 0;

	fprintf(f, "  %s of %" PRIu32 " bytes at 0x%" PRIx64 " by thread %" PRId32,
		race_side_access_name(side), side->size, side->address, side->tid);
	if (side->thread[0])
		fprintf(f, " (%s)", side->thread);
	if (a->via)
		fprintf(f, ", by %s", a->via);
	if (!(side->flags & RACE_DECODED))
		fputs(", before the instruction below (not decoded)", f);
	fprintf(f, ", %s:\n", when);
	for (uint32_t i = a->frame; i < side->frame_count; i++) {
		bool after;
		uint64_t at = race_frame(side, i, &after);

		print_frame(r, at, after, &number, f);
	}
}

static void print_heap_event(struct race_report *r, const struct race_heap_event *event,
			     const char *what, FILE *f)
{
	size_t number = 0;

	fprintf(f, "%s by thread %" PRId32, what, event->tid);
	if (event->thread[0])
		fprintf(f, " (%s)", event->thread);
	fputs(event->frame_count ? ":\n" : ", with a stack that had no room\n", f);
	for (uint32_t i = 0; i < event->frame_count; i++)
		print_frame(r, event->frames[i], true, &number, f);
}

static void print_block(struct race_report *r, const struct race_record *record, FILE *f)
{
	const struct race_heap *heap = &record->heap;

	fprintf(f, "  heap block of %" PRIu64 " bytes at 0x%" PRIx64 ", %" PRIu64 " bytes into it, ",
		heap->size, heap->start, record->address - heap->start);
	print_heap_event(r, &heap->allocated, race_heap_is_new(record) ?
			 "allocated while the first thread was held," : "allocated", f);
	if (heap->freed.time_ns)
		print_heap_event(r, &heap->freed, "  and freed", f);
}

/* Of what the address is a part, where it is no variable. */
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
			fputs("  in no block that --heap knows of: allocated before it was there, or "
			      "not by malloc\n", f);
		else if (record->memory == RACE_MEMORY_HEAP)
			fputs("  heap block; use --heap for where it was allocated\n", f);
		else
			fputs("  heap block, or other anonymous memory; use --heap for where it was "
			      "allocated\n", f);
		break;
	case RACE_MEMORY_STACK:
		fputs("  on the stack of a thread\n", f);
		break;
	case RACE_MEMORY_SHARED:
		fputs("  in memory that is shared with other processes\n", f);
		break;
	default:
		break;
	}
}

void race_print_text(struct race_report *r, const struct race_view *v, FILE *f)
{
	const struct race_record *record = &v->record;

	fprintf(f, "race %c: %s", grade_letters[v->grade], race_kind(v));
	if (v->variable[0])
		fprintf(f, " of %s", v->variable);
	fprintf(f, " in %s", v->first.function[0] ? v->first.function : "?");
	if (strcmp(v->first.function, v->second.function) != 0 && v->second.function[0])
		fprintf(f, " / %s", v->second.function);
	fprintf(f, " (%s) [%s]\n", v->why, v->fingerprint);
	print_side(r, &record->first, &v->first, "held before it", f);
	if (record->flags & RACE_UNKNOWN_ORIGIN)
		fputs("  the value changed meanwhile, by no thread's instruction: the kernel for a "
		      "system call, or another process\n", f);
	else
		print_side(r, &record->second, &v->second, "meanwhile", f);
	fprintf(f, "  value of the %" PRIu32 " bytes at 0x%" PRIx64 ": 0x%" PRIx64 " -> 0x%" PRIx64
		", after %" PRIu64 " us\n", record->len, record->address, record->old_value,
		record->new_value, record->held_ns / 1000);
	print_memory(r, record, f);
	if (v->varied[0]) {
		fputs("  first seen with ", f);
		for (const char *c = v->varied; *c; c++)
			*c == '\n' ? fputs(", ", f) : fputc(*c, f);
		fputc('\n', f);
	}
	/* From the first column on, to be copied into a file. */
	char *suppression = race_suppression(r, v);
	if (suppression)
		fprintf(f, "%s\n", suppression);
	fputc('\n', f);
	free(suppression);
}
