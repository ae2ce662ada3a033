/* SPDX-License-Identifier: MIT */
/* condition.h - --if of every command that makes events. */
#ifndef CLI_CONDITION_H
#define CLI_CONDITION_H

#include "report/condition_names.h"

#include <trapline/condition.h>

/*
 * Parses text, whose names are the target's; what is watched gives its type to new and old, and a
 * condition of its own when it is a bit-field. Without either *out is NULL. 0 or an exit status,
 * with the place and the reason printed.
 */
int cli_condition(const char *command, const char *text, const struct condition_names *names,
		  struct trapline_condition **out);

/*
 * Does a condition mean the same by two sets of names? 0 yes, 1 no, -1: yes, and by any other, since
 * it names no parameter.
 */
int cli_condition_compare(const char *text, const struct condition_names *names,
			  const struct condition_names *other);

/* The form only: what can be told before there is a process. */
int cli_condition_check(const char *command, const char *text);

/* --explain: the program and the verifier's log, on stdout. */
int cli_condition_explain(const char *command, const struct trapline_condition *condition);

#endif
