/* SPDX-License-Identifier: MIT */
/* poke_trap_arm64.c - no text is ever changed here, so no brk is Trapline's. */
#include "base/trap_path.h"
#include "code/poke/poke_trap.h"

void (*poke_before_callback)(const ucontext_t *context);
void (*poke_after_callback)(const ucontext_t *context);

TRAP_PATH int poke_on_int3(ucontext_t *context)
{
	return 0;
}

TRAP_PATH int poke_is_nested(const ucontext_t *context)
{
	return 0;
}

TRAP_PATH int poke_was_put_back(const ucontext_t *context)
{
	return 0;
}
