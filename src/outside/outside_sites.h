/* SPDX-License-Identifier: MIT */
/* outside_sites.h - the accesses of a function that a thread may be stalled before. */
#ifndef OUTSIDE_SITES_H
#define OUTSIDE_SITES_H

#include "outside/outside_functions.h"

struct code_calls;
struct outside_lister;

/* NULL: out of memory. */
struct outside_lister *outside_lister_open(const struct outside_code *code);
void outside_lister_close(struct outside_lister *l);
/*
 * The sites of a function, at most max: how many. *more are those that had no room, *unproven those
 * in bytes that are not known to be code. Which operand of an instruction is meant, and which part
 * of a long one, is by chance.
 */
uint32_t outside_list(struct outside_lister *l, const struct outside_function *f,
		      struct outside_trap *out, uint32_t max, uint32_t *more);

uint64_t outside_random(void);

#endif
