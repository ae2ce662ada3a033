/* SPDX-License-Identifier: MIT */
/*
 * missing.h - the symbols that a stripped program does not have: where they would be, and which
 * package brings them. And debug information that is there, but not readable.
 */
#ifndef REPORT_DWARF_MISSING_H
#define REPORT_DWARF_MISSING_H

#include "report/dwarf/symbols.h"

#define MISSING_TEXT 360

/*
 * `install its debug symbols (redis-tools-dbgsym, in /usr/lib/debug/.build-id/ab/cd.debug)`, as far
 * as it is known of the program.
 */
void missing_remedy(struct symbols *s, char *buf, size_t n);

struct missing_dwarf {
	char cause[300];    /* `has no debug information (DWARF)` */
	const char *remedy; /* `build it with -g` */
};

/*
 * Whether types of a module (NULL: the program) are not known for want of it, and why. remedy is
 * static.
 */
bool missing_dwarf_of(struct symbols *s, const char *module, struct missing_dwarf *out);

#endif
