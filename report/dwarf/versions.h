/* SPDX-License-Identifier: MIT */
/*
 * versions.h - names that an object has in several versions: step@V1 and step@@V2.
 *
 * Such a name is two functions or variables. Which of them a program runs was decided when it was
 * linked.
 */
#ifndef REPORT_DWARF_VERSIONS_H
#define REPORT_DWARF_VERSIONS_H

#include "report/dwarf/symbols_priv.h"

#include <gelf.h>

#define VERSION_LABEL 200

/* The tables of an object that have the versions. */
struct versions {
	Elf *elf;
	Elf_Data *symbols;
	Elf_Data *numbers; /* NULL: the object has no versions */
	Elf_Data *defined;
	Elf_Data *needed;
	size_t symbol_strings; /* sections */
	size_t defined_strings;
	size_t needed_strings;
	size_t count;
};

/* False: it has no dynamic symbols. */
bool versions_read(Elf *elf, struct versions *out);
/*
 * The version of a dynamic symbol. NULL: it has none. is_default: a name without a version means
 * it.
 */
const char *versions_of(const struct versions *v, size_t index, bool *is_default);

/*
 * The address of `name@V1`, `name@V2` or `name@@V2` in one object or, with module NULL, the first
 * that has it. 0, -ENOENT, or -EINVAL: the name has no version.
 */
int versions_find(struct symbols *s, const char *module, const char *name, struct variable *out);

/*
 * An object has `name` at an address, perhaps in another version than is meant: the one that the
 * program is linked to, or else the default one, with its size. The same address where there is one
 * version.
 */
uint64_t versions_meant(struct symbols *s, Dwfl_Module *mod, const char *name, uint64_t address,
			uint64_t *size);

/* `step@V1`, where the object has another version of that name elsewhere. False: it has not. */
bool versions_label(struct symbols *s, uint64_t address, const char *name, char *buf, size_t n);

#endif
