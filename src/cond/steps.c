/* SPDX-License-Identifier: MIT */
/* steps.c - see steps.h. */
#include "cond/steps.h"

#include <string.h>

struct cond_step *steps_put(struct steps *s, enum cond_op op, uint32_t takes, uint32_t leaves)
{
	struct condition *c = s->out;

	if (c->count == COND_STEPS_MAX || s->height - takes + leaves > COND_HEIGHT_MAX)
		s->is_full = true;
	if (s->is_full)
		return &s->nowhere;
	struct cond_step *step = &c->steps[c->count++];

	memset(step, 0, sizeof(*step));
	step->op = (uint8_t)op;
	step->height = (uint8_t)s->height;
	s->height += leaves - takes;
	return step;
}

/* As in C: what is too large for a signed number is unsigned. */
bool steps_number(struct steps *s, uint64_t number)
{
	steps_put(s, COND_PUSH, 0, 1)->imm = number;
	return number <= INT64_MAX;
}

bool steps_register(struct steps *s, uint32_t number)
{
	steps_put(s, COND_REG, 0, 1)->arg = (uint16_t)number;
	return false;
}

bool steps_term(struct steps *s, enum cond_term term)
{
	s->out->terms |= 1u << term;
	steps_put(s, COND_TERM, 0, 1)->arg = (uint16_t)term;
	return term == COND_TID || term == COND_PID || term == COND_CPU || term == COND_CHANGED;
}

static bool steps_sized(struct steps *s, enum cond_op op, uint32_t size, bool is_signed)
{
	struct cond_step *step = steps_put(s, op, 1, 1);

	step->size = (uint8_t)size;
	step->is_signed = is_signed;
	return is_signed || size < 8;
}

bool steps_load(struct steps *s, uint32_t size, bool is_signed)
{
	return steps_sized(s, COND_LOAD, size, is_signed);
}

bool steps_narrow(struct steps *s, uint32_t size, bool is_signed)
{
	return steps_sized(s, COND_CAST, size, is_signed);
}

/* Unsigned if either is; a shift is what its left side is, and a comparison has 0 or 1. */
bool steps_binary(struct steps *s, enum cond_op op, bool left_signed, bool right_signed)
{
	bool is_shift = op == COND_SHL || op == COND_SHR;
	bool is_signed = left_signed && (is_shift || right_signed);

	steps_put(s, op, 2, 1)->is_signed = is_signed;
	return is_signed || (op >= COND_EQ && op <= COND_GE);
}

bool steps_bits(struct steps *s, bool number_signed, uint32_t offset, uint32_t size, bool is_signed)
{
	uint64_t mask = size >= 64 ? UINT64_MAX : (UINT64_C(1) << size) - 1;

	steps_number(s, is_signed ? 64 - offset - size : offset);
	bool shifted = steps_binary(s, is_signed ? COND_SHL : COND_SHR, number_signed, true);
	if (is_signed) {
		steps_narrow(s, 8, true);
		steps_number(s, 64 - size);
		return steps_binary(s, COND_SHR, true, true);
	}
	bool mask_signed = steps_number(s, mask);
	return steps_binary(s, COND_AND, shifted, mask_signed);
}

struct cond_step *steps_skip(struct steps *s, bool is_or)
{
	steps_put(s, COND_BOOL, 1, 1);
	struct cond_step *skip =
		steps_put(s, is_or ? COND_JUMP_IF_1_KEEP : COND_JUMP_IF_0_KEEP, 1, 1);

	steps_put(s, COND_POP, 1, 0);
	return skip;
}

bool steps_skip_end(struct steps *s, struct cond_step *skip)
{
	steps_put(s, COND_BOOL, 1, 1);
	steps_land(s, skip);
	return true;
}

void steps_land(struct steps *s, struct cond_step *jump)
{
	jump->target = (uint16_t)s->out->count;
}
