/* SPDX-License-Identifier: MIT */
/*
 * go.h - functions of programs that Go's own compiler made, by the table that its runtime needs.
 *
 * The table stays in a program that was stripped of everything else, as distributions do. Read from
 * Go 1.18 on; of older programs only that they are Go.
 */
#ifndef REPORT_DWARF_GO_H
#define REPORT_DWARF_GO_H

#include "report/dwarf/symbols_priv.h"

/* Function, offset, file and line. False: no function of such a table is there. */
bool go_place(struct symbols *s, Dwfl_Module *mod, uint64_t address, struct place *out);

/* Each function, unless the module has symbols that show the same. As symbols_walk(). */
int go_walk(struct symbols *s, Dwfl_Module *mod, symbol_visitor visit, void *arg);

/* Is the object a Go program, and has it a table that can be read? */
bool go_is(struct symbols *s, Dwfl_Module *mod);
bool go_has_names(struct symbols *s, Dwfl_Module *mod);

/*
 * The function that contains address: its start and its size with what pads it. False: not known.
 */
bool go_function(struct symbols *s, Dwfl_Module *mod, uint64_t address, uint64_t *start,
		 uint64_t *size);

/*
 * Is it the name that is wanted? The path of a package and the package may be left out, as in
 * `http.(*conn).serve` and `(*conn).serve`, and `(*T)` may be T. The arguments of types too.
 */
struct function_name;
bool go_name_fits(const struct function_name *wanted, const char *name);

/* A name in a Go program whose only star is that of a pointer. */
bool go_is_literal(struct symbols *s, const char *text);

#endif
