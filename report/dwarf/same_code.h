/* SPDX-License-Identifier: MIT */
/*
 * same_code.h - functions that share their code, because a linker or compiler found it to be equal.
 *
 * Two names of one address are two functions if each has a definition of its own in the debug
 * information. Names that differ in underscores, or in a 64 at their end, are names of one function
 * if none of them has one. So is a weak name of C. What has the same readable name is the same
 * function, as the symbols of one constructor are.
 */
#ifndef REPORT_DWARF_SAME_CODE_H
#define REPORT_DWARF_SAME_CODE_H

#include "report/dwarf/symbols_priv.h"

#define SAME_CODE_BYTES 500 /* of all names */
#define SAME_CODE_AND " and "

/*
 * The other functions whose code begins at the address of `own`, a readable name or a symbol,
 * joined by SAME_CODE_AND; NULL: none. All debug information of the object is read for an answer,
 * once, if it has at most `most` bytes. The text stays until the command ends.
 */
const char *same_code_names(struct symbols *s, Dwfl_Module *mod, uint64_t function, const char *own,
			    uint64_t most);

#endif
