/* SPDX-License-Identifier: MIT */
/*
 * unit.h - the compilation unit and the line of an address, for all compilers.
 *
 * libdwfl finds units by .debug_aranges, which clang does not write unless it is asked to (libdw
 * 0.188): then each unit's own ranges are gone through, once.
 */
#ifndef REPORT_DWARF_UNIT_H
#define REPORT_DWARF_UNIT_H

#include <elfutils/libdwfl.h>

/* NULL: none, or no debug information. Lives as long as the module; addresses in it are + *bias. */
Dwarf_Die *unit_at(Dwfl_Module *mod, Dwarf_Addr address, Dwarf_Addr *bias);

/* The source file, by the name that the compiler got, and the line; NULL: not known. */
const char *unit_line(Dwfl_Module *mod, Dwarf_Addr address, int *line, const char **folder);

/*
 * `../lib/x.c` of a unit that was compiled in /build is /build/../lib/x.c; a folder that a build
 * hides, as ./posix is, adds nothing. Either may be NULL. The text stays until the command ends.
 */
const char *unit_whole_path(const char *file, const char *folder);

#endif
