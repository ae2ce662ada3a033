/* SPDX-License-Identifier: MIT */
/* race_returns.h - does a call come back? Not in a handler. */
#ifndef RACE_RETURNS_H
#define RACE_RETURNS_H

#include <stdint.h>

#include "code/insn/insn.h"

struct race_listing;

/* With the rows of the module's unwind table: the row of the function that begins there, or UINT32_MAX. */
uint32_t race_find_row(const struct race_listing *l, int32_t (*rows)[2], uint64_t address);
/* 0: the call at pc never comes back. */
int race_call_returns(struct race_listing *l, int32_t (*rows)[2], uint64_t pc,
		      const struct insn *insn);
/* 1: the instruction loads the address of a function that never returns: a call may lead there. */
int race_loads_last(struct race_listing *l, int32_t (*rows)[2], uint64_t pc, const uint8_t *code,
		    const struct insn *insn);

/* The call leads where a register or a word in memory says, whose place the code does not name. */
static inline int race_is_by_register(const struct insn *insn)
{
	return insn->kind == INSN_CALL_INDIRECT && !(insn->flags & INSN_PC_RELATIVE);
}

#endif
