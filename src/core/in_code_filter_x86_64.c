/* SPDX-License-Identifier: MIT */
/* in_code_filter_x86_64.c - see in_code_filter.h: the condition as machine code. */
#include "core/in_code_filter.h"

#include "base/memory.h"
#include "base/sys.h"
#include "code/probe/code_probe.h"
#include "trap/dispatch.h"

#define LOOK_AT_BYTES 128u

static int flags_are_live(uint64_t address)
{
	uint8_t text[LOOK_AT_BYTES];
	size_t n = PAGE_BYTES - (address & (PAGE_BYTES - 1));

	n = n < sizeof(text) ? n : sizeof(text);
	return sys_read_memory(sys_getpid(), address, text, n) != (ssize_t)n ||
	       code_probe_flags_are_live(text, n);
}

/* Without machine code each passing thread asks the interpreter. */
void in_code_compile(struct trapline_event *ev, struct native_code *code)
{
	const struct native_place place = {
		.address = ev->parts[0].addr,
		.pid = (uint64_t)ev->pid,
		.flags_are_live = flags_are_live(ev->parts[0].addr),
		.tid_at = trap_tid_at(),
	};
	const char *why;

	code->length = 0;
	code->true_at = 0;
	if (!ev->condition && !ev->has_limit && !ev->skip)
		return;
	ev->evaluated_in = TRAPLINE_EVALUATED_IN_HANDLER;
	if (!ev->condition)
		return;
	if (cond_native(ev->condition, &place, code, &why))
		code->length = 0;
	else
		ev->evaluated_in = TRAPLINE_EVALUATED_IN_CODE;
}
