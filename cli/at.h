/* SPDX-License-Identifier: MIT */
/* at.h - points as people write them: `PLACE#N[+K] [if COND]`, `PLACE@AMOUNT[+K] [if COND]`. */
#ifndef CLI_AT_H
#define CLI_AT_H

#include "report/symbols.h"

#include <stdbool.h>
#include <trapline/tools.h>

#define AT_TEXT 512

struct at_point {
	char place[AT_TEXT];
	char condition[AT_TEXT]; /* empty: none */
	uint64_t nth;		 /* from 1; 0: the pass at an amount */
	uint64_t amount;
	bool has_steps; /* +K */
	uint64_t steps;
	/* After at_resolve(): */
	uint64_t address;
	struct trapline_condition *parsed; /* NULL: none */
};

/* Takes the text apart. 0 or an exit status, line printed. */
int at_parse(const char *command, const char *text, struct at_point *out);

/* Finds the place in a process. 0 or an exit status, line printed. */
int at_resolve(const char *command, struct symbols *s, struct at_point *point);

/* A counter by the name that --counter takes: enum trapline_counter, or -1: there is none. */
int at_counter(const char *name);

/* SIGALRM, ALRM or 14. 0: there is none. */
int at_signal(const char *text);

#endif
