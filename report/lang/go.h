/* SPDX-License-Identifier: MIT */
/*
 * go.h - functions of programs that Go's own compiler made, by the table that its runtime needs.
 *
 * The table stays in a program that was stripped of everything else, as distributions do. Read from
 * Go 1.18 on; of older programs only that they are Go.
 */
#ifndef REPORT_LANG_GO_H
#define REPORT_LANG_GO_H

#include "report/dwarf/symbols_priv.h"

/* Function, offset, file and line. False: no function of such a table is there. */
bool go_place(struct symbols *s, Dwfl_Module *mod, uint64_t address, struct place *out);

/* Each function, unless the module has symbols that tell the same. As symbols_walk(). */
int go_walk(struct symbols *s, Dwfl_Module *mod, symbol_visitor visit, void *arg);

void go_tables_free(struct symbols *s);

#endif
