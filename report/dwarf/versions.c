/* SPDX-License-Identifier: MIT */
/* versions.c - see versions.h. */
#include "report/dwarf/versions.h"

#include "report/safe/busy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NUMBER 0x7fff /* of a version; the other bit: it is not the default */

bool versions_read(Elf *elf, struct versions *out)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	memset(out, 0, sizeof(*out));
	out->elf = elf;
	while ((section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, &header))
			continue;
		if (header.sh_type == SHT_DYNSYM && header.sh_entsize) {
			out->symbols = elf_getdata(section, NULL);
			out->symbol_strings = header.sh_link;
			out->count = header.sh_size / header.sh_entsize;
		} else if (header.sh_type == SHT_GNU_versym) {
			out->numbers = elf_getdata(section, NULL);
		} else if (header.sh_type == SHT_GNU_verdef) {
			out->defined = elf_getdata(section, NULL);
			out->defined_strings = header.sh_link;
		} else if (header.sh_type == SHT_GNU_verneed) {
			out->needed = elf_getdata(section, NULL);
			out->needed_strings = header.sh_link;
		}
	}
	return out->symbols != NULL;
}

static const char *defined_version(const struct versions *v, int number)
{
	GElf_Verdef row;
	GElf_Verdaux name;

	for (int at = 0; v->defined && gelf_getverdef(v->defined, at, &row);
	     at += (int)row.vd_next) {
		if ((row.vd_ndx & NUMBER) == number && !(row.vd_flags & VER_FLG_BASE) &&
		    gelf_getverdaux(v->defined, at + (int)row.vd_aux, &name))
			return elf_strptr(v->elf, v->defined_strings, name.vda_name);
		if (!row.vd_next)
			break;
	}
	return NULL;
}

static const char *needed_version(const struct versions *v, int number)
{
	GElf_Verneed row;
	GElf_Vernaux name;

	for (int at = 0; v->needed && gelf_getverneed(v->needed, at, &row);
	     at += (int)row.vn_next) {
		int of = at + (int)row.vn_aux;
		for (unsigned int i = 0; i < row.vn_cnt && gelf_getvernaux(v->needed, of, &name);
		     i++, of += (int)name.vna_next)
			if ((name.vna_other & NUMBER) == number)
				return elf_strptr(v->elf, v->needed_strings, name.vna_name);
		if (!row.vn_next)
			break;
	}
	return NULL;
}

const char *versions_of(const struct versions *v, size_t index, bool *is_default)
{
	GElf_Versym number;

	*is_default = true;
	if (!v->numbers || !gelf_getversym(v->numbers, (int)index, &number))
		return NULL;
	*is_default = !(number & ~NUMBER);
	const char *name = defined_version(v, number & NUMBER);
	return name ? name : needed_version(v, number & NUMBER);
}

/* The nth dynamic symbol, if it has that name. */
static bool symbol_is(const struct versions *v, size_t index, const char *name, size_t length,
		      GElf_Sym *out)
{
	if (!gelf_getsym(v->symbols, (int)index, out))
		return false;
	const char *text = elf_strptr(v->elf, v->symbol_strings, out->st_name);
	return text && strlen(text) == length && !strncmp(text, name, length);
}

struct version_search {
	const char *name;
	size_t length;
	const char *version;
	bool is_default; /* `@@` */
	struct variable *out;
};

static int find_in_module(Dwfl_Module *mod, void *arg)
{
	const struct version_search *f = arg;
	struct versions v;
	GElf_Addr bias;
	GElf_Sym symbol;
	bool is_default;
	Elf *elf = dwfl_module_getelf(mod, &bias);

	if (!elf || !versions_read(elf, &v))
		return 0;
	for (size_t i = 1; i < v.count; i++) {
		if (!symbol_is(&v, i, f->name, f->length, &symbol) || symbol.st_shndx == SHN_UNDEF)
			continue;
		const char *version = versions_of(&v, i, &is_default);
		if (!version || strcmp(version, f->version) != 0 || (f->is_default && !is_default))
			continue;
		int type = GELF_ST_TYPE(symbol.st_info);
		*f->out = (struct variable){
			.address = symbol.st_value + bias,
			.size = symbol.st_size,
			.object = bias,
			.is_function = type == STT_FUNC || type == STT_GNU_IFUNC,
			.module = symbols_module_name(mod),
		};
		return 1;
	}
	return 0;
}

int versions_find(struct symbols *s, const char *module, const char *name, struct variable *out)
{
	BUSY;
	const char *at = strchr(name, '@');

	if (!at || at == name)
		return -EINVAL;
	struct version_search f = {
		.name = name, .length = (size_t)(at - name), .is_default = at[1] == '@', .out = out
	};
	f.version = at + 1 + f.is_default;
	return symbols_each_module(s, module, find_in_module, &f) ? 0 : -ENOENT;
}

/* What the program itself is linked to; NULL: it does not use that name. */
static const char *version_of_program(struct symbols *s, const char *name)
{
	Dwfl_Module *program = symbols_first_module(s, NULL);
	struct versions v;
	GElf_Addr bias;
	GElf_Sym symbol;
	bool is_default;
	Elf *elf = program ? dwfl_module_getelf(program, &bias) : NULL;

	if (!elf || !versions_read(elf, &v))
		return NULL;
	for (size_t i = 1; i < v.count; i++)
		if (symbol_is(&v, i, name, strlen(name), &symbol))
			return versions_of(&v, i, &is_default);
	return NULL;
}

uint64_t versions_meant(struct symbols *s, Dwfl_Module *mod, const char *name, uint64_t address,
			uint64_t *size)
{
	BUSY;
	struct versions v;
	GElf_Addr bias;
	GElf_Sym symbol;
	bool is_default;
	uint64_t meant = 0;
	Elf *elf = mod ? dwfl_module_getelf(mod, &bias) : NULL;

	if (!elf || !versions_read(elf, &v) || !v.numbers)
		return address;
	const char *wanted = version_of_program(s, name);
	for (size_t i = 1; i < v.count; i++) {
		if (!symbol_is(&v, i, name, strlen(name), &symbol) || symbol.st_shndx == SHN_UNDEF)
			continue;
		const char *version = versions_of(&v, i, &is_default);
		bool is_wanted = wanted && version && !strcmp(version, wanted);
		if (is_wanted || (is_default && !meant)) {
			meant = symbol.st_value + bias;
			*size = symbol.st_size;
		}
		if (is_wanted)
			break;
	}
	return meant ? meant : address;
}

bool versions_label(struct symbols *s, uint64_t address, const char *name, char *buf, size_t n)
{
	BUSY;
	Dwfl_Module *mod = symbols_module_of(s, address);
	struct versions v;
	GElf_Addr bias;
	GElf_Sym symbol;
	bool is_default;
	bool has_other = false;
	Elf *elf = mod ? dwfl_module_getelf(mod, &bias) : NULL;

	buf[0] = 0;
	if (!elf || !versions_read(elf, &v) || !v.numbers)
		return false;
	for (size_t i = 1; i < v.count; i++) {
		if (!symbol_is(&v, i, name, strlen(name), &symbol) || symbol.st_shndx == SHN_UNDEF)
			continue;
		const char *version = versions_of(&v, i, &is_default);
		if (symbol.st_value + bias != address)
			has_other = true;
		else if (version && !buf[0])
			snprintf(buf, n, "%s%s%s", name, is_default ? "@@" : "@", version);
	}
	return has_other && buf[0];
}
