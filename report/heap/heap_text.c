/* SPDX-License-Identifier: MIT */
/* heap_text.c - a heap error as text for people. */
#include "report/heap/heap_report.h"

#include "report/plural.h"
#include "report/run/run_call.h"
#include "report/run/run_text.h"

#include <inttypes.h>

static void print_thread(const struct heap_moment *m, FILE *f)
{
	fprintf(f, " by thread %" PRId32, m->tid);
	if (m->thread[0])
		fprintf(f, " (%s)", m->thread);
}

static void heap_print_frames(struct heap_report *r, const struct heap_moment *m, bool is_access,
			      FILE *f)
{
	struct run_frame frames[HEAP_STACK_MAX];
	size_t n = heap_report_frames(r, m, is_access, frames);

	fputs(n ? ":\n" : ", stack not recorded\n", f);
	run_text_frames(f, frames, n);
}

/* How long before the access, or before the free, if no more of the access is known. */
static void print_age(const struct heap_record *record, const struct heap_moment *m, FILE *f)
{
	const struct heap_moment *end = record->first.time_ns ? &record->first : &record->freed;
	char age[32];

	if (end == m || end->time_ns <= m->time_ns)
		return;
	run_duration_text(end->time_ns - m->time_ns, age, sizeof(age));
	fprintf(f, ", %s before the %s", age,
		end == &record->first && record->access ? "access" : "free");
}

static void print_moment(struct heap_report *r, const struct heap_record *record,
			 const struct heap_moment *m, const char *what, FILE *f)
{
	if (!m->time_ns)
		return;
	fprintf(f, "  %s", what);
	print_thread(m, f);
	print_age(record, m, f);
	heap_print_frames(r, m, false, f);
}

/* The first byte that is wrong is in brackets. */
static void print_near(const struct heap_record *record, FILE *f)
{
	if (!record->near_bytes)
		return;
	fputs("  bytes there:", f);
	for (uint32_t i = 0; i < record->near_bytes; i++)
		fprintf(f, record->near_at + i == record->address ? " [%02x]" : " %02x",
			record->near[i]);
	fputs("  ", f);
	for (uint32_t i = 0; i < record->near_bytes; i++)
		fputc(record->near[i] >= ' ' && record->near[i] <= '~' ? record->near[i] : '.', f);
	fputc('\n', f);
}

static void print_block(const struct heap_view *v, FILE *f)
{
	const struct heap_record *record = &v->record;
	const struct block_type *t = &v->type;

	fprintf(f, "  block of %" PRIu64 " byte%s at 0x%" PRIx64 "\n", record->block_size,
		plural(record->block_size), record->block);
	if (t->type) {
		fprintf(f, "  probably of type %s", t->type->name);
		if (t->count > 1)
			fprintf(f, "[%" PRIu64 "]", t->count);
		fprintf(f, ", by its size and %s%s of %s",
			t->pointer ? "the pointer " : "the result", t->pointer ? t->pointer : "",
			t->function);
		if (v->member[0])
			fprintf(f, "; offset %" PRIu64 " is %s", record->address - record->block,
				v->member);
		fputc('\n', f);
	}
	print_near(record, f);
	if (record->in_use)
		fprintf(f, "  in use: %" PRIu32 " sampled block%s with the same stack\n",
			record->in_use, plural(record->in_use));
}

static void print_head(const struct heap_view *v, bool has_color, FILE *f)
{
	const struct heap_record *r = &v->record;
	const struct finding_place *in = v->first.at ? &v->first :
					 v->freed.at ? &v->freed :
						       &v->alloc;
	char same[600];
	char where[128];

	heap_report_where(v, where, sizeof(where));
	run_same_code_text(&in->place, same, sizeof(same));
	fprintf(f, "%sheap %c: %s", has_color ? "\033[1m" : "", "AB"[r->grade],
		heap_kind_names[r->kind]);
	if (r->grade == HEAP_GRADE_B)
		fputs(" (its trace was found later)", f);
	fprintf(f, ":%s%s", r->message[0] ? "" : " ",
		r->message[0] ? "" : heap_access_names[r->access]);
	if (r->access && v->size)
		fprintf(f, " of %" PRIu64 " byte%s", v->size, plural(v->size));
	fprintf(f, " %s", where);
	if (r->grade == HEAP_GRADE_A || r->message[0])
		fprintf(f, ", in %s%s", in->function[0] ? in->function : "?", same);
	else if (in->function[0])
		fprintf(f, ", %s in %s%s", in == &v->freed ? "freed" : "allocated", in->function,
			same);
	fprintf(f, " [%s]%s\n", v->fingerprint, has_color ? "\033[0m" : "");
}

static void print_first(struct heap_report *r, const struct heap_view *v, FILE *f)
{
	const struct heap_record *record = &v->record;

	if (record->message[0]) {
		fputs("  noticed", f);
		print_thread(&record->first, f);
		heap_print_frames(r, &record->first, false, f);
		fprintf(f, "  the block was not sampled: %s\n",
			record->kind == HEAP_CORRUPTION ? "another run may find the error itself" :
							  "its stacks are not known");
		return;
	}
	fprintf(f, "  %s", heap_access_names[record->access]);
	if (record->access && v->size)
		fprintf(f, " of %" PRIu64 " byte%s", v->size, plural(v->size));
	fprintf(f, " at 0x%" PRIx64, record->address);
	if (record->grade == HEAP_GRADE_B) {
		fputs(record->freed.time_ns ? ", seen when the block was freed\n" :
					      ", seen when the process ended\n",
		      f);
		return;
	}
	print_thread(&record->first, f);
	if (record->in_system_call)
		fputs(", by a system call", f);
	else if (v->first.via[0])
		fprintf(f, ", in %s", v->first.via);
	heap_print_frames(r, &record->first, record->ip != 0, f);
}

void heap_print_text(struct heap_report *r, const struct heap_view *v, bool has_color, FILE *f)
{
	const struct heap_record *record = &v->record;

	print_head(v, has_color, f);
	print_first(r, v, f);
	if (record->block)
		print_block(v, f);
	print_moment(r, record, &record->alloc, "allocated", f);
	print_moment(r, record, &record->freed, "freed", f);
	fputc('\n', f);
}
