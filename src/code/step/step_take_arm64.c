/* SPDX-License-Identifier: MIT */
/*
 * step_take_arm64.c - a thread is taken past an instruction, as step_form_arm64.c has planned: in
 * the handler.
 */
#include "base/trap_path.h"
#include "code/insn/insn.h"
#include "code/step/step.h"
#include "code/step/step_take.h"

#define NEGATIVE (1ull << 31)
#define ZERO (1ull << 30)
#define CARRY (1ull << 29)
#define OVERFLOW (1ull << 28)
/* What the branch before has left for a landing pad: no instruction but a branch leaves it. */
#define BRANCH_TYPE (3ull << 10)

TRAP_PATH static int condition_holds(uint8_t condition, uint64_t flags)
{
	const int is_less = !(flags & NEGATIVE) != !(flags & OVERFLOW);
	const uint64_t bits[] = { ZERO, CARRY, NEGATIVE, OVERFLOW };
	int holds;

	if (condition < 8)
		holds = (flags & bits[condition >> 1]) != 0;
	else if (condition < 10)
		holds = flags & CARRY && !(flags & ZERO);
	else if (condition < 12)
		holds = !is_less;
	else if (condition < 14)
		holds = !is_less && !(flags & ZERO);
	else
		return 1;
	return holds ^ (condition & 1);
}

/* The stack pointer is in no branch: 31 is the zero register. */
TRAP_PATH static uint64_t reg(const ucontext_t *context, uint8_t number)
{
	return number > 30 ? 0 : context->uc_mcontext.regs[number];
}

TRAP_PATH static int is_taken(const struct step *step, const ucontext_t *context)
{
	uint64_t value = reg(context, step->base);

	switch (step->condition) {
	case INSN_CONDITION_CBZ:
	case INSN_CONDITION_CBNZ:
		if (step->imm == 4)
			value &= 0xffffffffu;
		return (value == 0) == (step->condition == INSN_CONDITION_CBZ);
	case INSN_CONDITION_TBZ:
	case INSN_CONDITION_TBNZ:
		return (value >> step->imm & 1) == (step->condition == INSN_CONDITION_TBNZ);
	default:
		return condition_holds(step->condition, context->uc_mcontext.pstate);
	}
}

TRAP_PATH void step_take(const struct step *step, uint64_t address, ucontext_t *context)
{
	uint64_t next = address + 4;
	uint64_t pc = step->target;

	switch (step->kind) {
	case STEP_CONDITIONAL:
		if (!is_taken(step, context))
			pc = next;
		break;
	case STEP_CALL:
		context->uc_mcontext.regs[INSN_ARM64_LR] = next;
		break;
	case STEP_JUMP_REG:
		pc = reg(context, step->base);
		break;
	case STEP_CALL_REG: /* read before the link is written: it may be that register */
		pc = reg(context, step->base);
		context->uc_mcontext.regs[INSN_ARM64_LR] = next;
		break;
	default: /* STEP_JUMP */
		break;
	}
	context->uc_mcontext.pc = pc;
	context->uc_mcontext.pstate &= ~BRANCH_TYPE;
}
