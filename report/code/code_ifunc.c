/* SPDX-License-Identifier: MIT */
/*
 * code_ifunc.c - implementations that the loader chose.
 *
 * memcpy() of the C library is a symbol whose address is that of a resolver, which ran once. What
 * it chose is in the tables of its callers: a slot for the symbol's name in other objects, or one
 * for the resolver itself. A slot that is not bound yet leads into another object.
 */
#include "report/code/code_sites_priv.h"

#include <string.h>

#if defined(__x86_64__)
#define RELOC_SLOT R_X86_64_JUMP_SLOT
#define RELOC_DATA R_X86_64_GLOB_DAT
#define RELOC_IRELATIVE R_X86_64_IRELATIVE
#elif defined(__aarch64__)
#define RELOC_SLOT R_AARCH64_JUMP_SLOT
#define RELOC_DATA R_AARCH64_GLOB_DAT
#define RELOC_IRELATIVE R_AARCH64_IRELATIVE
#endif

struct ifunc {
	struct symbols *s;
	Dwfl_Module *mod; /* that has the implementation */
	uint64_t resolver;
	const char *name;
	uint64_t found;
};

static bool ifunc_is_wanted(const struct ifunc *f, const GElf_Rela *r, Elf *elf, Elf_Data *symbols,
			    size_t strings, uint64_t bias)
{
	GElf_Sym sym;

	if (GELF_R_TYPE(r->r_info) == RELOC_IRELATIVE)
		return (uint64_t)r->r_addend + bias == f->resolver;
	if (GELF_R_TYPE(r->r_info) != RELOC_SLOT && GELF_R_TYPE(r->r_info) != RELOC_DATA)
		return false;
	if (!symbols || !gelf_getsym(symbols, (int)GELF_R_SYM(r->r_info), &sym))
		return false;
	const char *name = elf_strptr(elf, strings, sym.st_name);
	return name && !strcmp(name, f->name);
}

/* The slot's value, if it is one of the implementations. */
static bool take_slot(struct ifunc *f, uint64_t slot)
{
	uint64_t value;

	if (symbols_read(f->s, slot, &value, sizeof(value)) || value == f->resolver ||
	    dwfl_addrmodule(f->s->dwfl, value) != f->mod)
		return false;
	f->found = value;
	return true;
}

static void search_table(struct ifunc *f, Elf *elf, Elf_Scn *scn, const GElf_Shdr *sh,
			 uint64_t bias)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	Elf_Scn *linked = elf_getscn(elf, sh->sh_link);
	Elf_Data *symbols = linked ? elf_getdata(linked, NULL) : NULL;
	GElf_Shdr linked_header = { 0 };
	GElf_Rela r;

	if (linked)
		gelf_getshdr(linked, &linked_header);
	if (linked_header.sh_type != SHT_DYNSYM)
		symbols = NULL;
	for (int i = 0; data && gelf_getrela(data, i, &r); i++)
		if (ifunc_is_wanted(f, &r, elf, symbols, linked_header.sh_link, bias) &&
		    take_slot(f, r.r_offset + bias))
			return;
}

static int search_module(Dwfl_Module *mod, void *arg)
{
	struct ifunc *f = arg;
	GElf_Addr bias;
	Elf *elf = dwfl_module_getelf(mod, &bias);
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;

	while (elf && !f->found && (scn = elf_nextscn(elf, scn)))
		if (gelf_getshdr(scn, &sh) && sh.sh_type == SHT_RELA && sh.sh_flags & SHF_ALLOC)
			search_table(f, elf, scn, &sh, bias);
	return f->found != 0;
}

uint64_t code_ifunc_target(struct symbols *s, Dwfl_Module *mod, uint64_t resolver, const char *name)
{
	struct ifunc f = { .s = s, .mod = mod, .resolver = resolver, .name = name };

	symbols_each_module(s, NULL, search_module, &f);
	return f.found;
}
