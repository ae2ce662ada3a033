/* SPDX-License-Identifier: MIT */
/*
 * step_form_arm64.c - how a thread gets past one instruction: see step_form.h.
 *
 * What changes the pc is emulated. A copy does the rest. Exclusive accesses are refused: the trap
 * before the copy takes their reservation away, and the copy of the store would fail each time.
 */
#include <errno.h>
#include <linux/prctl.h>

#include "base/sys.h"
#include "code/insn/insn.h"
#include "code/insn/insn_arm64.h"
#include "code/poke/text.h"
#include "code/step/step_form.h"
#include "code/step/step_plan.h"

#define GET_SHADOW_STACK_STATUS 74 /* PR_GET_SHADOW_STACK_STATUS, since v6.13 */
#define EXCLUSIVE_BYTES 128u
#define AUTHENTICATED 0x0000fc00u /* braa, blraa, retaa */

static const char why_not[] = "the instruction can neither be emulated nor run elsewhere";

static void plan_conditional(const struct insn *insn, struct step *out)
{
	out->kind = STEP_CONDITIONAL;
	out->condition = insn->condition;
	out->base = insn->target_reg;
	out->imm = insn->condition >= INSN_CONDITION_TBZ ? insn->tested_bit : insn->operand_bytes;
}

static int plan_register(uint32_t word, const struct insn *insn, struct step *out)
{
	if (word & AUTHENTICATED || insn->flags & INSN_PRIVILEGED)
		return -EOPNOTSUPP;
	if (insn->kind == INSN_RETURN && step_has_shadow_stack())
		return -EOPNOTSUPP;
	out->kind = insn->kind == INSN_CALL_INDIRECT ? STEP_CALL_REG : STEP_JUMP_REG;
	out->base = insn->target_reg;
	return 0;
}

static int plan_flow(uint64_t address, uint32_t word, const struct insn *insn, struct step *out)
{
	if (step_form_simple(address, insn, out))
		return 0;
	switch (insn->kind) {
	case INSN_JUMP_CONDITIONAL:
		plan_conditional(insn, out);
		return 0;
	case INSN_JUMP_INDIRECT:
	case INSN_CALL_INDIRECT:
	case INSN_RETURN:
		return plan_register(word, insn, out);
	case INSN_TRAP:
		out->kind = STEP_AGAIN;
		return 0;
	default:
		return insn->flags & (INSN_EXCLUSIVE | INSN_NOT_RELOCATABLE | INSN_PRIVILEGED) ?
			       -EOPNOTSUPP :
			       0;
	}
}

/* Back to what no thread falls through, to a store, or as far as kprobes looks in the kernel. */
int step_is_in_exclusive(uint64_t address)
{
	for (uint64_t at = address - 4; at >= address - EXCLUSIVE_BYTES; at -= 4) {
		uint8_t bytes[4];
		struct insn insn;

		if (text_read(at, bytes, sizeof(bytes)) ||
		    insn_decode(bytes, sizeof(bytes), &insn) || insn.kind == INSN_JUMP ||
		    insn.kind == INSN_JUMP_INDIRECT || insn.kind == INSN_RETURN)
			return 0;
		if (insn.flags & INSN_EXCLUSIVE)
			return !(insn.memory[0].access & INSN_WRITE);
	}
	return 0;
}

/* Emulated calls push nothing on a guarded control stack, and returns pop nothing. */
int step_has_shadow_stack(void)
{
	static int known; /* 1: no, 2: yes */
	uint64_t features = 0;

	if (!known) {
		long err = sys5(SYS_prctl, GET_SHADOW_STACK_STATUS, &features, 0, 0, 0);
		known = !err && features & 1 ? 2 : 1;
	}
	return known == 2;
}

int step_form(uint64_t address, const uint8_t *bytes, size_t len, struct step *out,
	      const char **why)
{
	struct insn insn;
	uint32_t word;

	*why = "no instruction, or one that is longer than the site";
	if (insn_decode(bytes, len, &insn))
		return -EINVAL;
	__builtin_memcpy(&word, bytes, sizeof(word));
	*why = why_not;
	int err = plan_flow(address, word, &insn, out);
	return err ? err : insn.length;
}

int step_length(const uint8_t *bytes, size_t available)
{
	struct insn insn;
	int err = insn_decode(bytes, available, &insn);

	return err ? err : insn.length;
}
