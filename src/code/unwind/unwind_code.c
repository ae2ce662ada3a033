/* SPDX-License-Identifier: MIT */
/* unwind_code.c - see unwind_code.h. */
#include "code/unwind/unwind_code.h"

#include <stddef.h>

#include "code/unwind/unwind_table.h"

#define REMEMBERED_MAX 8u

/* A structure of libgcc, as its unwinder uses it. */
struct frame_bases {
	void *text;
	void *data;
	void *function;
};
extern const void *_Unwind_Find_FDE(void *pc, struct frame_bases *bases);

struct found {
	struct unwind_reader reader;
	struct unwind_common common;
	struct unwind_entry entry;
};

static int find(uint64_t pc, struct found *out)
{
	struct frame_bases bases = { 0 };
	const void *at = _Unwind_Find_FDE((void *)(uintptr_t)pc, &bases);

	out->common = (struct unwind_common){ .at = 0 };
	if (!at)
		return 0;
	unwind_open(&out->reader, NULL);
	return !unwind_read_head(&out->reader, (uintptr_t)at, &out->entry) &&
	       !unwind_read_common(&out->reader, out->entry.common, &out->common) &&
	       !unwind_read_entry(&out->reader, &out->common, &out->entry);
}

uint64_t unwind_function_end(uint64_t address)
{
	struct found found;

	if (!find(address, &found) || found.entry.start != address)
		return 0;
	return address + found.entry.bytes;
}

/* Where the return address is, while a program runs. */
struct place {
	int is_on_stack;
	int at_begin; /* of the function */
	int remembered[REMEMBERED_MAX];
	unsigned int depth;
	uint64_t pc;
};

static void take_register(struct place *place, const struct unwind_step *step)
{
	switch (step->op) {
	case UNWIND_OFFSET:
		place->is_on_stack = 1;
		return;
	case UNWIND_RESTORE:
		place->is_on_stack = place->at_begin;
		return;
	case UNWIND_UNDEFINED:
	case UNWIND_SAME_VALUE:
	case UNWIND_REGISTER:
	case UNWIND_EXPRESSION:
	case UNWIND_VALUE_OFFSET:
	case UNWIND_VALUE_EXPRESSION:
		place->is_on_stack = 0;
		return;
	default:
		return;
	}
}

/* 0: the program has states that are not followed. */
static int take_state(struct place *place, enum unwind_op op)
{
	if (op == UNWIND_REMEMBER) {
		if (place->depth == REMEMBERED_MAX)
			return 0;
		place->remembered[place->depth++] = place->is_on_stack;
	}
	if (op == UNWIND_RESTORE_STATE) {
		if (!place->depth)
			return 0;
		place->is_on_stack = place->remembered[--place->depth];
	}
	return 1;
}

/* Until an instruction behind wanted. 0: not all of it is known. */
static int run(struct found *found, uint64_t program, uint64_t end, uint64_t wanted,
	       struct place *place)
{
	struct unwind_step step;

	unwind_seek(&found->reader, program, end);
	while (unwind_next(&found->reader, &found->common, &step)) {
		if (step.op == UNWIND_ADVANCE)
			place->pc += (uint64_t)step.number;
		if (place->pc > wanted)
			return 1;
		if (!take_state(place, step.op))
			return 0;
		if (step.reg == found->common.return_register)
			take_register(place, &step);
	}
	return !found->reader.is_wrong;
}

int unwind_return_is_on_stack(uint64_t pc)
{
	struct place place = { 0 };
	struct found found;

	if (!find(pc, &found) || !found.common.is_plain ||
	    pc - found.entry.start >= found.entry.bytes)
		return 0;
	place.pc = found.entry.start;
	if (!run(&found, found.common.program, found.common.end, pc, &place))
		return 0;
	place.at_begin = place.is_on_stack;
	return run(&found, found.entry.program, found.entry.end, pc, &place) && place.is_on_stack;
}
