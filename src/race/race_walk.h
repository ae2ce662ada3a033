/* SPDX-License-Identifier: MIT */
/* race_walk.h - the code ahead of a sampled thread: an access that it will reach. */
#ifndef RACE_WALK_H
#define RACE_WALK_H

#include <stdint.h>

#include <trapline/trapline.h>

#include "code/insn/insn.h"
#include "code/insn/insn_stall.h"

struct race_module;

/* An access ahead of the hit. -ENOENT: no access was found. */
int race_walk(const struct trapline_hit *hit, uint64_t *pc);
/* An access ahead of the beginning of any function of the program. */
int race_walk_anywhere(uint64_t *pc);
/* The same of a module, which may be NULL. */
int race_walk_in(const struct race_module *module, uint64_t *pc);
/* An access ahead of an address that a thread may reach. */
int race_walk_from(uint64_t from, uint64_t *pc);
int race_choose_seen(uint64_t *pc);
void race_note_seen(uint64_t pc);
int race_is_tired_of(uint64_t pc);
/* It is holdable, and does not lie in the thread's own frame. */
int race_is_candidate(const struct insn *insn, unsigned int operand, const struct insn_regs *regs);

/* It is a candidate, or lies in the own frame and its address was given away. */
static inline int race_is_worth_it(const struct insn *insn, unsigned int operand,
				   const struct insn_regs *regs, int is_escaped)
{
	return is_escaped ? insn_can_stall(insn, operand) : race_is_candidate(insn, operand, regs);
}

#endif
