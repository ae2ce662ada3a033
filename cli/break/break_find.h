/* SPDX-License-Identifier: MIT */
/* break_find.h - from each LOCATION to sites in code. */
#ifndef CLI_BREAK_BREAK_FIND_H
#define CLI_BREAK_BREAK_FIND_H

#include "cli/observe/observe_settings.h"
#include "cli/output.h"
#include "report/code/code_sites.h"

/* Look up all LOCATION. 0 or an exit status, line printed; notes report what is left out. */
int break_find(struct symbols *s, const struct observe_settings *set, struct output *o,
	       struct code_sites *sites);
/* Whether a program has all of them, without a message. */
bool break_has(const struct observe_settings *set, struct symbols *s);
/* Checks only the form of each LOCATION. */
int break_check(const struct observe_settings *set);
/* `3 functions and 2 inlined copies` */
void break_describe(const struct code_sites *sites, const bool *left_out, char *buf, size_t n);
/* The first option that reads registers or the stack; NULL: no such option. */
const char *break_needs_64bit(const struct observe_settings *set);
/* The words arg0 to arg5, which are registers of C's convention. */
bool break_names_argument(const char *condition);
/* --list */
void break_print_list(struct symbols *s, const struct code_sites *sites, struct output *o);

#endif
