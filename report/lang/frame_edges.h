/* SPDX-License-Identifier: MIT */
/* frame_edges.h - where a thread enters and leaves the code in which a variable exists. */
#ifndef FRAME_EDGES_H
#define FRAME_EDGES_H

#include "report/dwarf/symbols_priv.h"
#include "report/lang/frame_variable.h"

struct frame_ranges {
	struct frame_range *range; /* sorted */
	size_t count;
};

bool frame_ranges_add(struct frame_ranges *to, uint64_t start, uint64_t end);

/*
 * The CFA at an instruction, as the unwind table has it; false: it is not a register and a number.
 */
bool frame_cfa_at(Dwfl_Module *mod, uint64_t address, struct frame_site *out);

/*
 * Fills entries, exits and jumps_in_doubt from the instructions of the function. live is where the
 * variable exists; gaps in it are closed in which nothing could write to it. 0; -EINVAL with why;
 * -ENOMEM.
 */
int frame_edges_find(struct symbols *s, Dwfl_Module *mod, const struct frame_ranges *code,
		     struct frame_ranges *live, struct frame_variable *v, char *why, size_t n);

#endif
