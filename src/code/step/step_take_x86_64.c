/* SPDX-License-Identifier: MIT */
/*
 * step_take_x86_64.c - a thread is taken past an instruction, as step_plan.c has planned: in the
 * handler.
 */
#include "base/trap_path.h"
#include "code/insn/insn.h"
#include "code/step/step.h"
#include "code/step/step_take.h"

#define NO_REG INSN_NO_REG

/* DWARF number to ucontext. */
static const uint8_t greg_of[] = {
	REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
	REG_R9,	 REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP,
};

TRAP_PATH static uint64_t reg(const ucontext_t *context, uint8_t number)
{
	return number == NO_REG ? 0 : (uint64_t)context->uc_mcontext.gregs[greg_of[number]];
}

#define CARRY 0x001
#define PARITY 0x004
#define ZERO 0x040
#define SIGN 0x080
#define OVERFLOW 0x800

/* As Intel SDM, appendix B: the low bit negates. */
TRAP_PATH static int condition_holds(uint8_t condition, uint64_t flags)
{
	int less = !(flags & SIGN) != !(flags & OVERFLOW);
	const uint64_t bits[] = { OVERFLOW, CARRY, ZERO, CARRY | ZERO, SIGN, PARITY };
	int holds;

	if (condition < 12)
		holds = (flags & bits[condition >> 1]) != 0;
	else
		holds = condition < 14 ? less : less || flags & ZERO;
	return holds ^ (condition & 1);
}

TRAP_PATH static int loop_goes_on(uint8_t condition, ucontext_t *context)
{
	uint64_t flags = (uint64_t)context->uc_mcontext.gregs[REG_EFL];

	if (condition == INSN_CONDITION_RCXZ)
		return context->uc_mcontext.gregs[REG_RCX] == 0;
	uint64_t left = (uint64_t)--context->uc_mcontext.gregs[REG_RCX];
	if (condition == INSN_CONDITION_LOOPE)
		return left && flags & ZERO;
	if (condition == INSN_CONDITION_LOOPNE)
		return left && !(flags & ZERO);
	return left != 0;
}

TRAP_PATH static void push(uint64_t value, ucontext_t *context)
{
	uint64_t sp = (uint64_t)context->uc_mcontext.gregs[REG_RSP] - 8;

	*(volatile uint64_t *)(uintptr_t)sp = value;
	context->uc_mcontext.gregs[REG_RSP] = (greg_t)sp;
}

TRAP_PATH static uint64_t operand(const struct step *step, const ucontext_t *context)
{
	uint64_t at =
		reg(context, step->base) + reg(context, step->index) * step->scale + step->target;

	return *(volatile uint64_t *)(uintptr_t)at;
}

TRAP_PATH void step_take(const struct step *step, uint64_t address, ucontext_t *context)
{
	greg_t *gregs = context->uc_mcontext.gregs;
	uint64_t next = address + step->length;
	uint64_t pc = step->target;

	switch (step->kind) {
	case STEP_CONDITIONAL:
		if (step->condition > 15 ?
			    !loop_goes_on(step->condition, context) :
			    !condition_holds(step->condition, (uint64_t)gregs[REG_EFL]))
			pc = next;
		break;
	case STEP_CALL:
		push(next, context);
		break;
	case STEP_RETURN:
		pc = *(volatile uint64_t *)(uintptr_t)gregs[REG_RSP];
		gregs[REG_RSP] += 8 + step->imm;
		break;
	case STEP_JUMP_REG:
		pc = reg(context, step->base);
		break;
	case STEP_CALL_REG: /* read before the push: it may be the stack pointer */
		pc = reg(context, step->base);
		push(next, context);
		break;
	case STEP_JUMP_MEMORY:
		pc = operand(step, context);
		break;
	case STEP_CALL_MEMORY:
		pc = operand(step, context);
		push(next, context);
		break;
	default: /* STEP_JUMP */
		break;
	}
	gregs[REG_RIP] = (greg_t)pc;
}
