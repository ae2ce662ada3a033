/* SPDX-License-Identifier: MIT */
/* clean.c - see clean.h. scripts/check-style lets no other file call these functions of libdw. */
#include "report/safe/clean.h"

#include <search.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f;
}

/* The length of the UTF-8 character at s and its number; 0: it is not one. */
static size_t decode(const unsigned char *s, uint32_t *number)
{
	size_t n = *s >= 0xf0 && *s < 0xf5 ? 4 :
		   *s >= 0xe0 && *s < 0xf0 ? 3 :
		   *s >= 0xc2 && *s < 0xe0 ? 2 :
					     0;
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };

	*number = n ? *s & (0xffu >> (n + 1)) : 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*number = *number << 6 | (s[i] & 0x3f);
	}
	bool is_surrogate = *number >= 0xd800 && *number < 0xe000;
	return n && *number >= smallest[n] && *number < 0x110000 && !is_surrogate ? n : 0;
}

/* What changes the line, the cursor or the order of what follows. */
static bool is_control(uint32_t number)
{
	return number < 0xa0 || number == 0x200e || number == 0x200f ||
	       (number >= 0x2028 && number <= 0x202e) || (number >= 0x2066 && number <= 0x2069);
}

void clean_text(char *text)
{
	unsigned char *s = (unsigned char *)text;

	while (*s) {
		uint32_t number;
		size_t n = is_plain(*s) ? 1 : decode(s, &number);
		if (!is_plain(*s) && (!n || is_control(number)))
			memset(s, '?', n ? n : 1);
		s += n ? n : 1;
	}
}

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

const char *clean_keep(const char *name)
{
	static void *kept;
	char *copy = strdup(name);

	if (!copy)
		return "?";
	clean_text(copy);
	char **found = tsearch(copy, &kept, compare);
	const char *result = found ? *found : "?";
	if (result != copy)
		free(copy);
	return result;
}

const char *clean_name(const char *name)
{
	size_t n = name ? strlen(name) : 0;
	unsigned int others = 0;

	/* Without a way out, so that compilers take many characters at once. */
	for (size_t i = 0; i < n; i++)
		others |= !is_plain((unsigned char)name[i]);
	return others ? clean_keep(name) : name;
}

const char *clean_die_name(Dwarf_Die *die)
{
	return clean_name(dwarf_diename(die));
}

const char *clean_attribute(Dwarf_Attribute *attribute)
{
	return clean_name(dwarf_formstring(attribute));
}

const char *clean_line_file(Dwarf_Line *line)
{
	return clean_name(dwarf_linesrc(line, NULL, NULL));
}

const char *clean_file(Dwarf_Files *files, size_t number)
{
	return clean_name(dwarf_filesrc(files, number, NULL, NULL));
}

const char *clean_line_info(Dwfl_Line *line, int *number)
{
	return clean_name(dwfl_lineinfo(line, NULL, number, NULL, NULL, NULL));
}

const char *clean_symbol_at(Dwfl_Module *mod, GElf_Addr address, GElf_Off *offset, GElf_Sym *sym)
{
	return clean_name(dwfl_module_addrinfo(mod, address, offset, sym, NULL, NULL, NULL));
}

const char *clean_symbol(Dwfl_Module *mod, int index, GElf_Sym *sym, GElf_Addr *address,
			 GElf_Word *section)
{
	return clean_name(dwfl_module_getsym_info(mod, index, sym, address, section, NULL, NULL));
}
