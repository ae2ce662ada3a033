/* SPDX-License-Identifier: MIT */
/* sections.c - see sections.h. */
#include "report/dwarf/sections.h"

#include <stddef.h>

const char *section_next(Elf *elf, Elf_Scn **section, GElf_Shdr *header)
{
	size_t names;

	if (!elf || elf_getshdrstrndx(elf, &names))
		return NULL;
	while ((*section = elf_nextscn(elf, *section))) {
		const char *name = gelf_getshdr(*section, header) ?
					   elf_strptr(elf, names, header->sh_name) :
					   NULL;
		if (name)
			return name;
	}
	return NULL;
}
