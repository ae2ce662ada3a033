/* SPDX-License-Identifier: MIT */
/* past_x86_64.c - see past.h: a return from the handler is enough. */
#include "base/general_regs.h"

#include <errno.h>

#include "base/trap_path.h"
#include "trap/past.h"

TRAP_PATH int past_prepare(void)
{
	return 0;
}

TRAP_PATH int past_can(uint64_t address, const char **why)
{
	return 0;
}

TRAP_PATH int past_instruction(ucontext_t *context, int is_breakpoint, struct past *out)
{
	return -EOPNOTSUPP;
}
