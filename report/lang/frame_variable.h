/* SPDX-License-Identifier: MIT */
/*
 * frame_variable.h - variables of functions that are in memory of the function's frame.
 *
 * Their distance from the frame's canonical address (CFA, the stack pointer before the call) is
 * constant. A variable exists while its function runs in the block that declares it, and only where
 * the debug information has it in memory.
 */
#ifndef FRAME_VARIABLE_H
#define FRAME_VARIABLE_H

#include "report/code/code_sites.h"
#include "report/dwarf/types.h"

struct frame_range {
	uint64_t start;
	uint64_t end;
};

/* An instruction, and the CFA there: a register and a number. */
struct frame_site {
	uint64_t address;
	uint8_t reg; /* DWARF number */
	int64_t add;
};

struct frame_sites {
	struct frame_site *site;
	size_t count;
};

/* The variable in one function, or in one inlined copy. */
struct frame_variable {
	const struct type *type;
	int64_t offset; /* from the CFA */
	/* It lives from the function's entry to its return: then there is one entry and no exit. */
	bool is_whole;
	struct frame_sites entries; /* here it begins to exist */
	struct frame_sites exits;   /* and here it has ended */
	size_t jumps_in_doubt; /* to targets that are not known, which may lead into its code */
};

/*
 * Finds the variable in the function or inlined copy at a site, and adds each of that name. 0;
 * -ENOENT: it has none of that name; -EINVAL: it has, and it is not in memory, or where it lives is
 * not known. On an error why has the reason.
 */
int frame_variable_find(struct symbols *s, const struct code_site *site, const char *name,
			struct frame_variable **out, size_t *count, char *why, size_t n);
void frame_variables_free(struct frame_variable *variables, size_t count);

#endif
