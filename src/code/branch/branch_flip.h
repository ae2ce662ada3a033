/* SPDX-License-Identifier: MIT */
/* branch_flip.h - many branches at once between their two instructions: see branch_flip.c. */
#ifndef CODE_BRANCH_BRANCH_FLIP_H
#define CODE_BRANCH_BRANCH_FLIP_H

#include <stddef.h>
#include <stdint.h>

#include "code/poke/poke.h"

/* One branch in the text. */
struct branch_row {
	uint64_t address;
	uint64_t target;
	uint8_t is_jump; /* what the library wrote last, or found */
	uint8_t is_inverted;
	const void *object; /* whose record it is */
};

/* How many of the rows do not yet have the instruction of that state. */
size_t branch_flips_due(const struct branch_row *rows, size_t n, int on);

/*
 * Those that are due, all or none. Rows are sorted by address. 0, or errors as poke_commit(); with
 * -EIO they act as the new instruction.
 */
int branch_flip(struct branch_row *rows, size_t n, int on, struct code_problem *problem);

#endif
