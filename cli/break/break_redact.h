/* SPDX-License-Identifier: MIT */
/*
 * break_redact.h - --redact NAME: values that no output has.
 *
 * A name is that of an argument, arg0 to arg5, `ret`, or a name in braces of --print and --by. What
 * is behind another name is not known: a pointer in a struct may lead to the same bytes.
 */
#ifndef CLI_BREAK_BREAK_REDACT_H
#define CLI_BREAK_BREAK_REDACT_H

#include "cli/opts.h"
#include "report/lang/signature.h"

#include <stdbool.h>

#define BREAK_REDACTED "<redacted>"

/* The argument of that index; signature NULL: a register of the convention. */
bool break_redacts_argument(const struct opt_list *names, const struct signature *signature,
			    size_t index);
bool break_redacts_result(const struct opt_list *names);
/* An expression that has one of the names, or another name of the same argument. */
bool break_redacts_text(const struct opt_list *names, const struct signature *signature,
			const char *text);
/*
 * A misspelt name must not print the value. Is this one found: as an argument, the result that is
 * wanted, or in a text (NULL: none)?
 */
bool break_redact_is_known(const char *name, const struct signature *signature, bool has_result,
			   const char *print, const char *by);

#endif
