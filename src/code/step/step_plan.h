/* SPDX-License-Identifier: MIT */
/* step_plan.h - planning the step past an instruction. */
#ifndef CODE_POKE_STEP_PLAN_H
#define CODE_POKE_STEP_PLAN_H

#include "code/step/step.h"
#include <stddef.h>

/*
 * Plan the step past the instruction(s) of len bytes at address. bytes are the instructions.
 * 0, or -EOPNOTSUPP, -EINVAL (not one instruction where one is asked for), -ENOSPC with *why.
 */
enum step_rule {
	STEP_ONE,     /* exactly one instruction of len bytes, or one that never falls through */
	STEP_FIRST,   /* the same, or several */
	STEP_UNASKED, /* as the caller states: no thread runs it */
};
int step_plan(uint64_t address, const uint8_t *bytes, size_t len, enum step_rule rule,
	      struct step *out, const char **why);
/* Length of the one instruction at bytes, or -errno. */
int step_length(const uint8_t *bytes, size_t available);
/* 1: the bytes are as STEP_ONE wants them, whether or not they can be passed. */
int step_is_one(uint64_t address, const uint8_t *bytes, size_t len);
extern const char step_why_several[];
/*
 * 1: between an exclusive load and its store. The trap would take the reservation away each time,
 * and the program would try again for ever.
 */
int step_is_in_exclusive(uint64_t address);
/* 1: what returns elsewhere than it was called from would fault. */
int step_has_shadow_stack(void);

#endif
