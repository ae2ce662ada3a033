/* SPDX-License-Identifier: MIT */
/*
 * clean.h - texts that a target chose, without what would control a terminal.
 *
 * A program names its functions, types, files and threads as it likes: with line breaks that forge
 * lines of a report, or with escape sequences. Names are cleaned where they enter. Thus text, JSON,
 * suppressions and errors show the same name, and a name that is typed from them is found.
 */
#ifndef REPORT_SAFE_CLEAN_H
#define REPORT_SAFE_CLEAN_H

#include <elfutils/libdwfl.h>

/*
 * Replaces each byte by '?' that is part of a control character (C0, DEL, C1), of a line or
 * paragraph separator, of a change of writing direction, or of no UTF-8 character.
 */
void clean_text(char *text);
/*
 * The name itself when nothing in it is to be replaced, else a copy that stays until the command
 * ends. NULL stays NULL. Not thread-safe: names are looked up in one thread.
 */
const char *clean_name(const char *name);
/* A clean copy that stays until the command ends; one for all that are equal. */
const char *clean_keep(const char *name);

/* What libdw and libdwfl of the same names return, cleaned. */
const char *clean_die_name(Dwarf_Die *die);
const char *clean_attribute(Dwarf_Attribute *attribute);
const char *clean_line_file(Dwarf_Line *line);
const char *clean_file(Dwarf_Files *files, size_t number);
const char *clean_line_info(Dwfl_Line *line, int *number);
const char *clean_symbol_at(Dwfl_Module *mod, GElf_Addr address, GElf_Off *offset, GElf_Sym *sym);
const char *clean_symbol(Dwfl_Module *mod, int index, GElf_Sym *sym, GElf_Addr *address,
			 GElf_Word *section);

#endif
