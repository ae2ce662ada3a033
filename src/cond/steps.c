/* SPDX-License-Identifier: MIT */
/* steps.c - see steps.h. */
#include "cond/steps.h"

#include <string.h>

#include "cond/order.h"

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

static struct cond_step *order(struct steps *s, enum number_kind kind, uint64_t nan)
{
	struct cond_step *step = steps_put(s, COND_ORDER, 1, 1);

	step->size = kind == NUMBER_FLOAT ? 4 : 8;
	step->imm = nan;
	return step;
}

/* A NaN is last: where a range of numbers ends before it. */
bool steps_compare_constant(struct steps *s, enum cond_op op, enum number_kind kind, double with)
{
	uint64_t bits;

	memcpy(&bits, &with, sizeof(bits));
	const uint64_t rank = order_of(bits, ORDER_LAST);
	const bool is_below = op == COND_LT || op == COND_LE;
	const bool is_above = op == COND_GT || op == COND_GE;

	order(s, kind, ORDER_LAST);
	struct cond_step *step = steps_put(s, COND_IN, 1, 1);
	step->imm = is_below ? ORDER_FIRST : rank + (op == COND_GT);
	step->imm2 = is_above ? ORDER_LAST : rank + (op != COND_LT);
	if (op == COND_NE)
		steps_put(s, COND_NOT, 1, 1);
	return true;
}

/* Each side where its NaN makes the comparison false, and != true. */
void steps_order(struct steps *s, enum cond_op op, enum number_kind kind, bool is_right)
{
	const bool is_below = op == COND_LT || op == COND_LE;

	order(s, kind, is_right == is_below ? ORDER_FIRST : ORDER_LAST)->arg = !is_right;
}

static struct cond_step *convert(struct steps *s, enum cond_op op, uint32_t depth)
{
	struct cond_step *step = steps_put(s, op, 1, 1);

	step->arg = (uint16_t)depth;
	return step;
}

void steps_convert(struct steps *s, enum number_kind from, enum number_kind to, uint32_t depth)
{
	if (number_is_float(to) && !number_is_float(from)) {
		struct cond_step *step = convert(s, COND_TO_FLOAT, depth);

		step->size = to == NUMBER_FLOAT ? 4 : 8;
		step->is_signed = from == NUMBER_SIGNED;
		return;
	}
	if (from == NUMBER_FLOAT && to != NUMBER_FLOAT)
		convert(s, COND_WIDEN, depth);
	if (from == NUMBER_DOUBLE && to == NUMBER_FLOAT)
		convert(s, COND_ROUND, depth);
	if (number_is_float(from) && !number_is_float(to))
		convert(s, COND_TO_WHOLE, depth)->is_signed = to == NUMBER_SIGNED;
}

enum number_kind steps_arithmetic(struct steps *s, enum cond_op op, enum number_kind kind)
{
	const enum cond_op of_doubles = op == COND_ADD ? COND_FADD :
					op == COND_SUB ? COND_FSUB :
					op == COND_MUL ? COND_FMUL :
							 COND_FDIV;

	steps_convert(s, kind, NUMBER_DOUBLE, 1);
	steps_convert(s, kind, NUMBER_DOUBLE, 0);
	steps_put(s, of_doubles, 2, 1);
	steps_convert(s, NUMBER_DOUBLE, kind, 0);
	return kind;
}

static bool constant_instead(struct steps *s, bool is_true)
{
	steps_put(s, COND_POP, 1, 0);
	return steps_number(s, is_true);
}

bool steps_compare_whole(struct steps *s, enum cond_op op, bool is_signed, double with)
{
	const double two_63 = 9223372036854775808.0;
	const bool needs_above = op == COND_GE || op == COND_LT; /* the next whole number up */
	const double least = is_signed ? -two_63 : 0;
	const double beyond = is_signed ? two_63 : 2 * two_63;

	if (with >= beyond)
		return constant_instead(s, op == COND_LT || op == COND_LE || op == COND_NE);
	if (with < least)
		return constant_instead(s, op == COND_GT || op == COND_GE || op == COND_NE);
	uint64_t whole = with < 0 ? (uint64_t)(int64_t)with : (uint64_t)with;
	const double back = with < 0 ? (double)(int64_t)whole : (double)whole;
	if (back != with && (op == COND_EQ || op == COND_NE))
		return constant_instead(s, op == COND_NE);
	/* A cast cuts towards zero. */
	if (back < with && needs_above)
		whole++;
	if (back > with && !needs_above)
		whole--;
	steps_number(s, whole);
	steps_put(s, op, 2, 1)->is_signed = is_signed;
	return true;
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
