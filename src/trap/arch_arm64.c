/* SPDX-License-Identifier: MIT */
/* arch_arm64.c - see arch.h. */
#include <errno.h>

#include "base/trap_path.h"
#include "trap/arch.h"

TRAP_PATH uint64_t arch_pc(const ucontext_t *context)
{
	return context->uc_mcontext.pc;
}

TRAP_PATH uint64_t arch_sp(const ucontext_t *context)
{
	return context->uc_mcontext.sp;
}

TRAP_PATH int arch_register(const ucontext_t *context, unsigned int number, uint64_t *out)
{
	if (number <= 30)
		*out = context->uc_mcontext.regs[number];
	else if (number == 31)
		*out = context->uc_mcontext.sp;
	else if (number == 32)
		*out = context->uc_mcontext.pc;
	else
		return -EINVAL;
	return 0;
}

/* The cause is in a register that the exception itself sets. */
TRAP_PATH int arch_has_lost_cause(const siginfo_t *info, const ucontext_t *context)
{
	return 0;
}

TRAP_PATH int arch_vector(const ucontext_t *context, unsigned int number, uint64_t out[2])
{
	return -ENODATA;
}

TRAP_PATH int arch_vector_word(const ucontext_t *context, unsigned int number, uint64_t *out)
{
	return -ENODATA;
}

TRAP_PATH uint64_t arch_vector_bytes(const ucontext_t *context)
{
	return 0;
}

/* Both kinds are faults on arm64. */
TRAP_PATH int arch_done(uint32_t access)
{
	return access == TRAPLINE_AMOUNT;
}

TRAP_PATH int arch_steps_past(uint32_t access)
{
	return access == TRAPLINE_AMOUNT;
}

TRAP_PATH int arch_is_trap_code(int32_t code)
{
	return code == TRAP_BRKPT;
}

/* brk has a code of its own in siginfo. */
TRAP_PATH int arch_is_at_breakpoint(const ucontext_t *context)
{
	return 0;
}
