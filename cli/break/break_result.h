/* SPDX-License-Identifier: MIT */
/* break_result.h - the parts of --if that compare the result of a function. */
#ifndef CLI_BREAK_BREAK_RESULT_H
#define CLI_BREAK_BREAK_RESULT_H

#include "report/dwarf/symbols.h"
#include "report/lang/signature.h"

#include <trapline/trapline.h>

struct observe_settings;

/* Checks that the result of a function can be compared so. 0 or an exit status, line printed. */
int break_result_check(const struct observe_settings *set, struct symbols *s,
		       const struct signature *signature, const char *function);

/*
 * Is there a result after all? Compilers take away one that no caller uses. Where they may have,
 * the caller must read it in its first instruction behind the call.
 */
bool break_result_is_there(struct symbols *s, const struct signature *signature, uint64_t caller);

/* caller: the address that the call returns to. */
bool break_result_holds(const struct observe_settings *set, struct symbols *s,
			const struct signature *signature, const struct trapline_hit *returned,
			uint64_t caller);

#endif
