/* SPDX-License-Identifier: MIT */
/* condition_option.h - the option --if, for every command that makes events. */
#ifndef CLI_OBSERVE_CONDITION_OPTION_H
#define CLI_OBSERVE_CONDITION_OPTION_H

#include "report/lang/condition_names.h"

#include <trapline/condition.h>

/* As condition_make(). 0, or an exit status with the column and the cause printed. */
int cli_condition(const char *command, const char *text, const struct condition_names *names,
		  struct condition_parts *out);

/* Checks only the form, before there is a process. */
int cli_condition_check(const char *command, const char *text);

/* --explain: the program and the verifier's log, on stdout. */
int cli_condition_explain(const char *command, const struct trapline_condition *condition);

#endif
