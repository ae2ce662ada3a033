/* SPDX-License-Identifier: MIT */
/*
 * dynamic.c - see dynamic.h.
 *
 * An object reaches a global variable through a slot, which the dynamic linker filled. That slot
 * states what the object uses, no matter what order of search and versions led there. An object
 * that has no slot for its own variable does not use it by name; then a copy relocation of the
 * program decides.
 */
#include "report/dwarf/dynamic.h"
#include "report/dwarf/versions.h"
#include "report/safe/busy.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#define SLOT_64 R_X86_64_GLOB_DAT
#define COPY_64 R_X86_64_COPY
#define SLOT_32 R_386_GLOB_DAT
#define COPY_32 R_386_COPY
#else
#define SLOT_64 R_AARCH64_GLOB_DAT
#define COPY_64 R_AARCH64_COPY
#define SLOT_32 R_ARM_GLOB_DAT
#define COPY_32 R_ARM_COPY
#endif

struct relocation {
	uint64_t offset;
	uint32_t type;
	int64_t addend;
	GElf_Sym symbol;
	const char *name;
	const char *version; /* NULL: none */
};

/* Not 0 ends the walk and is returned. */
typedef int (*relocation_visitor)(const struct relocation *r, void *arg);

/* One table of relocations and the symbols that it names. */
struct table {
	Elf_Data *data;
	Elf_Data *symbols;
	Elf *elf;
	bool has_addends;
	GElf_Word strings;
	struct versions versions;
};

static bool relocation_at(const struct table *t, int i, struct relocation *out)
{
	GElf_Rela rela = { 0 };
	GElf_Rel rel;

	if (t->has_addends && !gelf_getrela(t->data, i, &rela))
		return false;
	if (!t->has_addends) {
		if (!gelf_getrel(t->data, i, &rel))
			return false;
		rela.r_offset = rel.r_offset;
		rela.r_info = rel.r_info;
	}
	out->offset = rela.r_offset;
	out->addend = rela.r_addend;
	out->type = (uint32_t)GELF_R_TYPE(rela.r_info);
	if (!gelf_getsym(t->symbols, (int)GELF_R_SYM(rela.r_info), &out->symbol))
		return false;
	bool is_default;
	out->version = versions_of(&t->versions, GELF_R_SYM(rela.r_info), &is_default);
	out->name = elf_strptr(t->elf, t->strings, out->symbol.st_name);
	return out->name != NULL;
}

static int walk_table(const struct table *t, size_t count, relocation_visitor visit, void *arg)
{
	struct relocation r;
	int result = 0;

	for (size_t i = 0; i < count && !result; i++)
		if (relocation_at(t, (int)i, &r))
			result = visit(&r, arg);
	return result;
}

static int walk_relocations(Elf *elf, relocation_visitor visit, void *arg)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	GElf_Shdr symbols;
	int result = 0;

	while (!result && (section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, &header) || !header.sh_entsize ||
		    (header.sh_type != SHT_RELA && header.sh_type != SHT_REL))
			continue;
		Elf_Scn *of = elf_getscn(elf, header.sh_link);
		if (!of || !gelf_getshdr(of, &symbols) || symbols.sh_type != SHT_DYNSYM)
			continue;
		struct table t = { .data = elf_getdata(section, NULL),
				   .symbols = elf_getdata(of, NULL),
				   .elf = elf,
				   .has_addends = header.sh_type == SHT_RELA,
				   .strings = symbols.sh_link };
		versions_read(elf, &t.versions);
		if (t.data && t.symbols)
			result = walk_table(&t, header.sh_size / header.sh_entsize, visit, arg);
	}
	return result;
}

#define ALIASES_MAX 16

/* What an object calls a variable when it speaks to others. */
struct names {
	uint64_t value;
	const char *name[ALIASES_MAX];
	const char *version[ALIASES_MAX]; /* NULL: none */
	bool is_default[ALIASES_MAX];	  /* a name without a version means it too */
	size_t count;
};

struct resolving {
	struct symbols *s;
	bool is_32bit;
	uint64_t bias;
	uint64_t value; /* of the variable in its file */
	const struct names *names;
	uint64_t found;
};

/* The object's own slot for the variable. */
static int slot_visit(const struct relocation *r, void *arg)
{
	struct resolving *f = arg;
	uint64_t address = 0;

	if (r->type != (f->is_32bit ? SLOT_32 : SLOT_64) || r->symbol.st_shndx == SHN_UNDEF ||
	    r->symbol.st_value != f->value || GELF_ST_TYPE(r->symbol.st_info) == STT_TLS ||
	    symbols_read(f->s, r->offset + f->bias, &address, f->is_32bit ? 4 : 8))
		return 0;
	f->found = address;
	return address != 0;
}

static bool is_alias(const struct relocation *r, const struct names *names, size_t i)
{
	const char *version = names->version[i];

	if (strcmp(names->name[i], r->name) != 0)
		return false;
	return r->version && version ? !strcmp(r->version, version) : names->is_default[i];
}

/* The program's copy of it, under any of its names. */
static int copy_visit(const struct relocation *r, void *arg)
{
	struct resolving *f = arg;

	if (r->type != (f->is_32bit ? COPY_32 : COPY_64))
		return 0;
	for (size_t i = 0; i < f->names->count; i++)
		if (is_alias(r, f->names, i)) {
			f->found = r->offset + f->bias;
			return 1;
		}
	return 0;
}

static void take_name(const struct versions *v, const GElf_Shdr *header, size_t index,
		      const GElf_Sym *symbol, struct names *names)
{
	int type = GELF_ST_TYPE(symbol->st_info);
	const char *name = elf_strptr(v->elf, header->sh_link, symbol->st_name);

	if (name && symbol->st_shndx != SHN_UNDEF && symbol->st_value == names->value &&
	    type == STT_OBJECT && GELF_ST_VISIBILITY(symbol->st_other) == STV_DEFAULT &&
	    names->count < ALIASES_MAX) {
		names->version[names->count] =
			versions_of(v, index, &names->is_default[names->count]);
		names->name[names->count++] = name;
	}
}

static void read_names(Elf *elf, struct names *names)
{
	Elf_Scn *section = NULL;
	struct versions versions;
	GElf_Shdr header;
	GElf_Sym symbol;

	versions_read(elf, &versions);
	while ((section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_DYNSYM ||
		    !header.sh_entsize)
			continue;
		Elf_Data *data = elf_getdata(section, NULL);
		for (size_t i = 1; data && i < header.sh_size / header.sh_entsize; i++)
			if (gelf_getsym(data, (int)i, &symbol))
				take_name(&versions, &header, i, &symbol, names);
	}
}

static bool is_symbolic(Elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	GElf_Dyn entry;

	while ((section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_DYNAMIC ||
		    !header.sh_entsize)
			continue;
		Elf_Data *data = elf_getdata(section, NULL);
		for (size_t i = 0; data && i < header.sh_size / header.sh_entsize; i++)
			if (gelf_getdyn(data, (int)i, &entry) &&
			    (entry.d_tag == DT_SYMBOLIC ||
			     (entry.d_tag == DT_FLAGS && entry.d_un.d_val & DF_SYMBOLIC)))
				return true;
	}
	return false;
}

static uint64_t copied_address(struct symbols *s, const struct names *names)
{
	struct resolving f = { .s = s, .is_32bit = symbols_is_32bit(s), .names = names };
	Dwfl_Module *program = symbols_first_module(s, NULL);
	GElf_Addr bias;

	Elf *elf = program ? dwfl_module_getelf(program, &bias) : NULL;
	f.bias = elf ? bias : 0;
	if (elf)
		walk_relocations(elf, copy_visit, &f);
	return f.found;
}

/* Is that name, without its version, one that others use? */
static bool is_exported(const struct names *names, const char *name)
{
	const size_t length = strcspn(name, "@");

	for (size_t i = 0; i < names->count; i++) {
		char *readable = symbols_demangle(names->name[i]);
		const char *other = readable ? readable : names->name[i];
		bool is_same = strlen(other) == length && !strncmp(other, name, length);

		free(readable);
		if (is_same)
			return true;
	}
	return false;
}

uint64_t dynamic_address(struct symbols *s, uint64_t address, const char *name)
{
	BUSY;
	Dwfl_Module *mod = symbols_module_of(s, address);
	GElf_Addr bias;
	Elf *elf = mod ? dwfl_module_getelf(mod, &bias) : NULL;

	if (!elf)
		return address;
	struct resolving f = {
		.s = s, .is_32bit = symbols_is_32bit(s), .bias = bias, .value = address - bias
	};
	struct names names = { .value = f.value };
	read_names(elf, &names);
	if (!names.count || is_symbolic(elf))
		return address;
	if (walk_relocations(elf, slot_visit, &f))
		return f.found;
	uint64_t copied = is_exported(&names, name) ? copied_address(s, &names) : 0;
	return copied ? copied : address;
}

/*
 * Does a copy of a file begin with this mapping, one with code? Else it is mapped to be read as a
 * file. libdwfl takes two copies that lie side by side for one.
 */
static bool begins_copy(const struct symbols *s, size_t i)
{
	const struct mapping *first = &s->mappings[i];
	const struct mapping *end = s->mappings + s->mapping_count;

	if (first->offset || !first->inode) /* anonymous memory can have a name with a slash */
		return false;
	for (const struct mapping *m = first; m < end && (m == first || m->offset || !m->inode);
	     m++)
		if (m->inode == first->inode && m->is_code)
			return true;
	return false;
}

size_t dynamic_copies(struct symbols *s, uint64_t address, uint64_t *out, size_t n)
{
	const struct mapping *own = NULL;
	size_t found = 0;

	for (size_t i = 0; i < s->mapping_count && s->mappings[i].start <= address; i++)
		own = begins_copy(s, i) ? &s->mappings[i] : own;
	for (size_t i = 0; own && i < s->mapping_count && found < n; i++)
		if (s->mappings[i].inode == own->inode && begins_copy(s, i))
			out[found++] = address - own->start + s->mappings[i].start;
	if (!found && n)
		out[found++] = address;
	return found;
}

bool dynamic_has_copies(struct symbols *s)
{
	const struct mapping *m = s->mappings;

	for (size_t i = 0; i < s->mapping_count; i++) {
		size_t k = begins_copy(s, i) ? i + 1 : s->mapping_count;

		for (; k < s->mapping_count; k++)
			if (m[k].inode == m[i].inode && begins_copy(s, k))
				return true;
	}
	return false;
}
