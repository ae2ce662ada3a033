/* SPDX-License-Identifier: MIT */
/*
 * condition_parameters.h - parameters of the function with the breakpoint, in a condition.
 *
 * They are in registers, or on the stack, when the function is entered. Paths that begin with one
 * have a base that no program has (see struct expression_local).
 */
#ifndef REPORT_LANG_CONDITION_PARAMETERS_H
#define REPORT_LANG_CONDITION_PARAMETERS_H

#include "report/lang/expression.h"
#include "report/lang/signature.h"

#define PARAMETERS_MAX 32
#define PARAMETER_TEXT 64

bool parameter_has_name(const struct signature *signature, const char *name);
size_t parameters_as_locals(const struct signature *signature,
			    struct expression_local locals[PARAMETERS_MAX]);
bool is_parameter_address(uint64_t base);

/*
 * What a path begins with, in the language of conditions: an address, or, when it returns true, the
 * value that is there. Of no parameter the number.
 */
bool parameter_base(const struct signature *signature, uint64_t base, char text[PARAMETER_TEXT]);
/* The value of a parameter, or of a part of one, in registers; false: it is no such. */
bool parameter_value(const struct signature *signature, uint64_t base, char *text, size_t n);
/* Why a path that begins with a parameter cannot be used; NULL: it can. */
const char *parameter_problem(const struct signature *signature, const struct expression_path *path,
			      bool is_address);

#endif
