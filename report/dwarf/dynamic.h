/* SPDX-License-Identifier: MIT */
/*
 * dynamic.h - what the dynamic linker made of a variable that debug information or a symbol table
 * has. Another object's copy may be used instead, or the same file is loaded several times.
 */
#ifndef REPORT_DWARF_DYNAMIC_H
#define REPORT_DWARF_DYNAMIC_H

#include "report/dwarf/symbols_priv.h"

/*
 * The address that the program uses for a global variable which an object has at `address`. The
 * same address where nothing replaces it: by a copy relocation, or by an object that comes earlier.
 * A name that the object keeps to itself, beside one that others use, means its own memory.
 */
uint64_t dynamic_address(struct symbols *s, uint64_t address, const char *name);

/* Is any file loaded several times? */
bool dynamic_has_copies(struct symbols *s);

/*
 * Where the same location of the same file is in memory, the given address among them: at most n,
 * by address. Returns how many; 1: the file is loaded once.
 */
size_t dynamic_copies(struct symbols *s, uint64_t address, uint64_t *out, size_t n);

#endif
