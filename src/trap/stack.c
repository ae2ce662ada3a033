/* SPDX-License-Identifier: MIT */
/*
 * stack.c - a stack inside the handler, by libgcc's unwinder: no allocation, no lock since GCC 12
 * with glibc 2.35 (_dl_find_object). The first use is expensive, so it is made at arming.
 */
#include <unwind.h>

#include "base/trap_path.h"
#include "trap/stack.h"

struct walk {
	uint64_t from; /* skip Trapline's own frames until this pc */
	uint64_t *frames;
	uint32_t count;
	uint32_t max;
};

TRAP_PATH static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *arg)
{
	struct walk *walk = arg;
	uint64_t ip = _Unwind_GetIP(context);

	if (!walk->count && ip != walk->from)
		return _URC_NO_REASON;
	if (walk->count == walk->max)
		return _URC_END_OF_STACK;
	walk->frames[walk->count++] = ip;
	return _URC_NO_REASON;
}

TRAP_PATH uint32_t stack_unwind(uint64_t ip, uint64_t *frames, uint32_t n)
{
	struct walk walk = { ip, frames, 0, n };

	_Unwind_Backtrace(step, &walk);
	if (!walk.count && n) {
		frames[0] = ip;
		walk.count = 1;
	}
	return walk.count;
}

void stack_warm_up(void)
{
	uint64_t frames[4];

	stack_unwind((uint64_t)(uintptr_t)__builtin_return_address(0), frames, 4);
}
