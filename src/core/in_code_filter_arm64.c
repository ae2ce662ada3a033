/* SPDX-License-Identifier: MIT */
/* in_code_filter_arm64.c - see in_code_filter.h: the interpreter decides. */
#include "core/in_code_filter.h"

void in_code_compile(struct trapline_event *ev, struct native_code *code)
{
	code->length = 0;
	code->true_at = 0;
	if (ev->condition || ev->has_limit || ev->skip)
		ev->evaluated_in = TRAPLINE_EVALUATED_IN_HANDLER;
}
