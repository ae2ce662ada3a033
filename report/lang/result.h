/* SPDX-License-Identifier: MIT */
/*
 * result.h - the parts of a condition that compare the result of a function: `ret < 0`, `ret ==
 * BLUE`.
 *
 * The kernel evaluates a condition when a function is entered, and then there is no result. The
 * parts of a chain of && that compare it are evaluated here, when the function has returned.
 */
#ifndef REPORT_LANG_RESULT_H
#define REPORT_LANG_RESULT_H

#include "cond/tree.h"
#include "report/dwarf/types.h"

#define RESULT_TESTS_MAX 8

/* `ret < 0` */
struct result_test {
	enum cond_op op;
	int64_t value;
	char name[64]; /* of a constant; empty: the value */
};

struct result_tests {
	struct result_test test[RESULT_TESTS_MAX];
	size_t count;
};

/*
 * Takes these parts out of a condition, whose root is NULL if nothing is left. 0, or -EINVAL with
 * *error.
 */
int result_take(struct expression *e, struct result_tests *out, struct expression_error *error);

/*
 * The first constant that is not known; NULL: all are. type NULL: the type of the result is not
 * known.
 */
const char *result_unknown(const struct result_tests *tests, struct symbols *s,
			   const struct type *type);

/* value: the register. */
bool result_holds(const struct result_tests *tests, struct symbols *s, const struct type *type,
		  uint64_t value);

#endif
