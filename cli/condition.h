/* SPDX-License-Identifier: MIT */
/* condition.h - --if of every command that makes events. */
#ifndef CLI_CONDITION_H
#define CLI_CONDITION_H

#include "report/symbols.h"

#include <trapline/condition.h>

#include <stdio.h>

/*
 * Parses text, whose symbols are the target's. NULL text gives a NULL condition. 0 or an exit
 * status, with the place and the reason printed.
 */
int cli_condition(const char *command, const char *text, struct symbols *symbols,
		  struct trapline_condition **out);

/* The form only: what can be told before there is a process. */
int cli_condition_check(const char *command, const char *text);

/* --explain: the program and the verifier's log, on stdout. */
int cli_condition_explain(const char *command, const struct trapline_condition *condition);

/* One line for the summary: where hits were decided, and what could not be. */
void cli_condition_summary(FILE *f, const struct trapline_stats *st);

#endif
