/* SPDX-License-Identifier: MIT */
/*
 * steps.h - writing the steps of a condition.
 *
 * Each function writes what leaves one number on the stack, and returns whether that is signed, by
 * the rules of C. What is narrower than 64 bits fits into a signed number. A floating-point number
 * is there as its bits, and enum number_kind has its kind.
 *
 * After the condition is full nothing is written, and only is_full reports it.
 */
#ifndef COND_STEPS_H
#define COND_STEPS_H

#include <stdbool.h>
#include <stddef.h>

#include "cond/ir.h"

enum number_kind {
	NUMBER_UNSIGNED,
	NUMBER_SIGNED,
	NUMBER_FLOAT,
	NUMBER_DOUBLE
};

static inline bool number_is_float(enum number_kind kind)
{
	return kind >= NUMBER_FLOAT;
}

struct steps {
	struct condition *out;
	uint32_t height;
	bool is_full;
	struct cond_step nowhere; /* written to when it is full */
};

/* Any step, that takes some numbers and leaves some. */
struct cond_step *steps_put(struct steps *s, enum cond_op op, uint32_t takes, uint32_t leaves);

bool steps_number(struct steps *s, uint64_t number);
bool steps_register(struct steps *s, uint32_t number);
bool steps_term(struct steps *s, enum cond_term term);

/* for the number, or the two, that were written last: */
bool steps_load(struct steps *s, uint32_t size, bool is_signed);
bool steps_narrow(struct steps *s, uint32_t size, bool is_signed);
bool steps_binary(struct steps *s, enum cond_op op, bool left_signed, bool right_signed);
/*
 * A comparison of a floating-point number with a constant. A comparison of two needs the rank of
 * each, which is written behind both.
 */
bool steps_compare_constant(struct steps *s, enum cond_op op, enum number_kind kind, double with);
void steps_order(struct steps *s, enum cond_op op, enum number_kind kind, bool is_right);
/*
 * A conversion as by a cast to a float, a double, or a whole number of 64 bits. depth: how many
 * numbers were written after this one.
 */
void steps_convert(struct steps *s, enum number_kind from, enum number_kind to, uint32_t depth);
/* + - * / of two floats, or of two doubles. */
enum number_kind steps_arithmetic(struct steps *s, enum cond_op op, enum number_kind kind);
/* A comparison of a whole number with a floating-point constant, exactly. */
bool steps_compare_whole(struct steps *s, enum cond_op op, bool is_signed, double with);
/* A bit-field; number_signed: what the number is that has it. */
bool steps_bits(struct steps *s, bool number_signed, uint32_t offset, uint32_t size,
		bool is_signed);

/* && and ||: behind the left side, which it may skip the right side for, and behind the right. */
struct cond_step *steps_skip(struct steps *s, bool is_or);
bool steps_skip_end(struct steps *s, struct cond_step *skip);
/* Where a jump leads to. */
void steps_land(struct steps *s, struct cond_step *jump);

#endif
