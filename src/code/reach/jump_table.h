/* SPDX-License-Identifier: MIT */
/*
 * jump_table.h - what an indirect jump is, by the instructions before it: a jump by a table, as
 * compilers write a switch, or through a pointer. Not for handlers.
 */
#ifndef CODE_REACH_JUMP_TABLE_H
#define CODE_REACH_JUMP_TABLE_H

#include <stdint.h>

#include "code/insn/insn.h"

#define JUMP_ENTRIES 4096u /* of a table */
#define JUMP_REGISTERS 16u /* by their DWARF numbers */

struct jump_past {
	uint64_t pc;
	const uint8_t *code;
	struct insn insn;
};

enum jump_kind {
	JUMP_UNKNOWN,
	JUMP_DISTANCES, /* entries of 4 bytes: distances from the table */
	JUMP_ADDRESSES, /* entries of 8 bytes */
	JUMP_POINTER,	/* loaded from memory, and from no table */
	JUMP_INITIAL,	/* what the register had before all of these instructions */
};

struct jump {
	enum jump_kind kind;
	/* of a table: */
	uint64_t table;
	uint8_t index; /* register that selects the entry ... */
	uint32_t row;  /* ... at past[row - 1]; 0: at the jump itself */
};

/*
 * past: the n instructions before the jump, the last one first. bases: what registers have before
 * them, 0: not known; NULL: of none.
 */
void jump_find(const struct jump_past *past, uint32_t n, const struct jump_past *jump,
	       const uint64_t bases[JUMP_REGISTERS], struct jump *out);
/*
 * How many values the register index can have at past[row - 1], by the comparison or mask before
 * that. 0: not known.
 */
uint32_t jump_bound(const struct jump_past *past, uint32_t n, uint8_t index, uint32_t row);
/* The register, by its DWARF number, that a lea of an address relative to the pc writes to. */
uint8_t jump_lea_register(const struct jump_past *p);

#endif
