/* SPDX-License-Identifier: MIT */
/* condition_option.h - the option --if, for every command that makes events. */
#ifndef CLI_OBSERVE_CONDITION_OPTION_H
#define CLI_OBSERVE_CONDITION_OPTION_H

#include "report/lang/condition_names.h"

#include <trapline/condition.h>

/*
 * Parses text. Names are those of the target, and `new` and `old` have the type that is watched. A
 * bit-field adds a condition of its own. Without a condition *out is NULL. 0, or an exit status with
 * the column and the cause printed.
 */
int cli_condition(const char *command, const char *text, const struct condition_names *names,
		  struct trapline_condition **out);

/*
 * Compares what a condition means with two sets of names. 0: the same; 1: not the same; -1: the same
 * with any names, since it has no parameter.
 */
int cli_condition_compare(const char *text, const struct condition_names *names,
			  const struct condition_names *other);

/* Checks only the form, before there is a process. */
int cli_condition_check(const char *command, const char *text);

/* --explain: the program and the verifier's log, on stdout. */
int cli_condition_explain(const char *command, const struct trapline_condition *condition);

#endif
