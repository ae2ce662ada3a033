/* SPDX-License-Identifier: MIT */
/* expression_spot.h - where the walk along an expression is. */
#ifndef REPORT_LANG_EXPRESSION_SPOT_H
#define REPORT_LANG_EXPRESSION_SPOT_H

#include "report/lang/expression.h"

struct spot {
	const struct type *type; /* NULL: not known */
	uint64_t size;		 /* of a symbol without a type */
	uint64_t address;
	struct expression_path path;
	uint32_t bit_offset;
	uint32_t bit_size;
	bool is_value; /* address is a pointer's value, from a cast of a number */
};

void spot_add(struct spot *p, uint64_t offset);

/* The few bytes that contain a bit-field, aligned so that one register can watch them. */
void spot_cover_bits(struct spot *p, uint64_t *size);

/* `big+16`: the member that is there, of the given length if there is one. */
void spot_apply_offset(const struct expression *e, struct spot *p);

#endif
