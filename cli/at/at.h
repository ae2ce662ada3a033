/* SPDX-License-Identifier: MIT */
/*
 * at.h - points as users write them: `LOCATION#N[+K] [if COND]`, `LOCATION@AMOUNT[+K] [if COND]`.
 */
#ifndef CLI_AT_AT_H
#define CLI_AT_AT_H

#include "report/dwarf/symbols.h"

#include <stdbool.h>
#include <trapline/tools.h>

#define AT_TEXT 512

/* In the message that the program ended before the point; `trapline at --each` looks for it. */
#define AT_NOT_REACHED "the program ended after"

#define AT_COMMAND_MISSING \
	"no command: give it after -- (example: trapline at 'malloc#1000' -- ./program)"

struct at_point {
	char location[AT_TEXT];
	char condition[AT_TEXT]; /* empty: none */
	uint64_t nth;		 /* from 1; 0: the occurrence at an amount */
	uint64_t amount;
	bool has_steps; /* +K */
	uint64_t steps;
	/* After at_resolve(): */
	uint64_t address;
	struct trapline_condition *parsed; /* NULL: none */
};

/* Parses the text. 0 or an exit status, line printed. */
int at_parse(const char *command, const char *text, struct at_point *out);

/* Finds the location in a process. 0 or an exit status, line printed. */
int at_resolve(const char *command, struct symbols *s, struct at_point *point);

/* The names that --counter takes. */
#define AT_COUNTERS "branches|instructions|cycles|page-faults|syscalls"

/* The counter of one of these names. */
enum trapline_counter at_counter(const char *name);

#endif
