/* SPDX-License-Identifier: MIT */
/* patch_scope.c - see patch_scope.h. */
#include "report/patch/patch_scope.h"

#include "report/dwarf/symbols_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct exported {
	const char *name;
	const char *module;
};

static bool table_has(Elf *elf, Elf_Scn *scn, const GElf_Shdr *sh, const char *wanted)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	GElf_Sym sym;

	for (int i = 1; data && gelf_getsym(data, i, &sym); i++) {
		const char *name = elf_strptr(elf, sh->sh_link, sym.st_name);
		if (name && sym.st_shndx != SHN_UNDEF && GELF_ST_BIND(sym.st_info) != STB_LOCAL &&
		    !strcmp(name, wanted))
			return true;
	}
	return false;
}

static int scope_visit(Dwfl_Module *mod, void *arg)
{
	struct exported *e = arg;
	GElf_Addr bias;
	Elf *elf = dwfl_module_getelf(mod, &bias);
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;

	while (elf && (scn = elf_nextscn(elf, scn)))
		if (gelf_getshdr(scn, &sh) && sh.sh_type == SHT_DYNSYM &&
		    table_has(elf, scn, &sh, e->name)) {
			e->module = symbols_module_name(mod);
			return 1;
		}
	return 0;
}

const char *patch_scope_exporter(struct symbols *s, const char *name)
{
	struct exported e = { .name = name };

	return symbols_each_module(s, NULL, scope_visit, &e) ? e.module : NULL;
}

static int scope_is_loaded(Dwfl_Module *mod, void *arg)
{
	return 1;
}

bool patch_scope_has_needed(struct symbols *s, const struct patch_object *o)
{
	const char *name;

	for (size_t i = 0; (name = patch_object_needed(o, i)); i++)
		if (!symbols_each_module(s, name, scope_is_loaded, NULL))
			return false;
	return true;
}

int patch_scope_check(struct symbols *s, const struct patch_object *o, char *why, size_t n)
{
	const char *name;

	if (!patch_scope_has_needed(s, o))
		return 0;
	for (size_t i = 0; (name = patch_object_undefined(o, i)); i++) {
		struct variable v;
		if (patch_scope_exporter(s, name))
			continue;
		if (!symbols_find(s, name, &v))
			snprintf(why, n,
				 "it uses '%s', which %s has but does not export; reach it by "
				 "TRAPLINE_PATCH_OLD()",
				 name, v.module ? v.module : symbols_program(s));
		else
			snprintf(why, n,
				 "it uses '%s', which no object of the process has; define it in "
				 "the replacement, or link the library that has it",
				 name);
		return -ENOENT;
	}
	return 0;
}
