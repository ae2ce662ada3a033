/* SPDX-License-Identifier: MIT */
/* sections.h - the sections of an ELF file, with their names. */
#ifndef REPORT_DWARF_SECTIONS_H
#define REPORT_DWARF_SECTIONS_H

#include <gelf.h>

/*
 * The name of the next one, which *section is then; NULL before the first. NULL: that was the last.
 */
const char *section_next(Elf *elf, Elf_Scn **section, GElf_Shdr *header);

#endif
