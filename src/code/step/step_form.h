/* SPDX-License-Identifier: MIT */
/* step_form.h - planning the step past one instruction, by architecture. */
#ifndef CODE_STEP_STEP_FORM_H
#define CODE_STEP_STEP_FORM_H

#include "code/insn/insn.h"
#include "code/step/step.h"
#include <stddef.h>

/*
 * The step past the first instruction at bytes; kind stays STEP_NONE: a copy does it. Its length;
 * -EINVAL, -EOPNOTSUPP with *why. *out has no registers yet.
 */
int step_form(uint64_t address, const uint8_t *bytes, size_t len, struct step *out,
	      const char **why);

/* What all have: a nop, and a jump or call whose target is in it. 1; 0: the rest is to be asked. */
static inline int step_form_simple(uint64_t address, const struct insn *insn, struct step *out)
{
	out->length = insn->length;
	out->target = address + (uint64_t)insn->target;
	switch (insn->kind) {
	case INSN_NOP:
	case INSN_LANDING:
		out->target = address + insn->length;
		out->kind = STEP_JUMP;
		return 1;
	case INSN_JUMP:
		out->kind = STEP_JUMP;
		return 1;
	case INSN_CALL:
		out->kind = STEP_CALL;
		return 1;
	default:
		return 0;
	}
}

#endif
