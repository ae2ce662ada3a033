/* SPDX-License-Identifier: MIT */
/* break_result.h - the parts of --if that compare the result of a function. */
#ifndef CLI_BREAK_BREAK_RESULT_H
#define CLI_BREAK_BREAK_RESULT_H

#include "report/dwarf/symbols.h"
#include "report/lang/signature.h"

#include <trapline/trapline.h>

#define BREAK_RESULT_TESTS 8

/* `ret < 0` */
struct break_result_test {
	int op;
	int64_t value;
	char name[64]; /* of a constant; empty: the value */
};

struct observe_settings;

/* Moves the parts of --if that compare the result to result_test. 0 or an exit status, line printed. */
int break_result_split(struct observe_settings *set);
/* Checks that the result of a function can be compared so. 0 or an exit status, line printed. */
int break_result_check(const struct observe_settings *set, struct symbols *s,
		       const struct signature *signature, const char *function);
bool break_result_holds(const struct observe_settings *set, struct symbols *s,
			const struct signature *signature, const struct trapline_hit *returned);

#endif
