/* SPDX-License-Identifier: MIT */
/*
 * race_frames.c - the unwind table of an object: where a function begins and ends, and where in it
 * instructions begin for certain. Not in a handler.
 *
 * A row of the table of an exception handler's addresses is the beginning of an instruction, and so
 * is the location where the rule for the stack changes. The program may close the object at any
 * moment, so nothing of it is touched: it is copied by a system call.
 */
#include "race/race_frames.h"

#include "race/race_modules.h"

#define PAGE 4096u
#define RBP 6u		   /* its number in DWARF */
#define ADDED_TO_RBP 0x76u /* DW_OP_breg6 */

/* Near the end of what is mapped: up to the end of the page alone. */
static size_t copy(void *arg, uint64_t address, void *to, size_t n)
{
	const size_t page = PAGE - address % PAGE;

	(void)arg;
	if (race_copy(address, to, n))
		return n;
	return page < n && race_copy(address, to, page) ? page : 0;
}

static void window_begin(struct race_window *w)
{
	w->source = (struct unwind_source){ copy, NULL, w->room, sizeof(w->room) };
	unwind_open(&w->reader, &w->source);
}

void race_frames_begin(struct race_frames *f)
{
	window_begin(&f->entries);
	window_begin(&f->commons);
	window_begin(&f->handlers);
	f->common.at = 0;
}

int race_frame_read(struct race_frames *f, uint64_t at, struct race_frame *out)
{
	struct unwind_entry *e = &out->entry;

	if (unwind_read_head(&f->entries.reader, at, e) || !e->common ||
	    unwind_read_common(&f->commons.reader, e->common, &f->common) ||
	    unwind_read_entry(&f->entries.reader, &f->common, e))
		return 0;
	out->start = e->start;
	out->end = e->start + e->bytes;
	return 1;
}

void race_frame_roots(struct race_frames *f, const struct race_frame *frame, race_root root,
		      void *arg)
{
	const struct unwind_entry *e = &frame->entry;
	struct unwind_reader *r = &f->entries.reader;
	struct unwind_step step;
	uint64_t pc = e->start;

	if (unwind_read_common(&f->commons.reader, e->common, &f->common))
		return;
	unwind_seek(r, e->program, e->end);
	while (unwind_next(r, &f->common, &step)) {
		if (step.op != UNWIND_ADVANCE)
			continue;
		pc += (uint64_t)step.number;
		root(arg, pc);
	}
	if (e->handlers)
		unwind_each_handler(&f->handlers.reader, e->handlers, e->start, root, arg);
}

/* The first operation of an expression; the reader continues behind the rule. */
static uint64_t first_operation(struct unwind_reader *r, const struct unwind_step *step,
				uint64_t end)
{
	const uint64_t behind = unwind_position(r);

	unwind_seek(r, step->block, step->block_end);
	const uint64_t op = unwind_number(r, 1);
	unwind_seek(r, behind, end);
	return op;
}

/* A function that aligns its stack has an expression. */
int race_frame_is_at_rbp(struct race_frames *f, const struct race_frame *frame)
{
	const struct unwind_entry *e = &frame->entry;
	struct unwind_reader *r = &f->entries.reader;
	struct unwind_step step;

	if (unwind_read_common(&f->commons.reader, e->common, &f->common))
		return 1;
	unwind_seek(r, e->program, e->end);
	while (unwind_next(r, &f->common, &step)) {
		const int is_frame = step.op == UNWIND_DEF_CFA ||
				     step.op == UNWIND_DEF_CFA_REGISTER;
		const int has_block = step.op == UNWIND_DEF_CFA_EXPRESSION ||
				      step.op == UNWIND_EXPRESSION;

		if (is_frame && step.reg == RBP)
			return 1;
		if (has_block && first_operation(r, &step, e->end) == ADDED_TO_RBP)
			return 1;
	}
	return 0;
}
