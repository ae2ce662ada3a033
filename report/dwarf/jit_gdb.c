/* SPDX-License-Identifier: MIT */
/*
 * jit_gdb.c - see jit_gdb.h. The process may change the list at any moment, or lie: all is bounded.
 */
#include "report/dwarf/jit_gdb.h"

#include "base/clock.h"
#include "base/hash.h"

#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX 20000u
#define BYTES_MAX (256u << 20)	  /* of all files */
#define LOOK_AGAIN_NS 5000000000u /* a library with the variable may be loaded later */

struct descriptor {
	uint32_t version;
	uint32_t action;
	uint64_t relevant;
	uint64_t first;
};

struct entry {
	uint64_t next;
	uint64_t previous;
	uint64_t file;
	uint64_t size;
};

static bool find_descriptor(struct symbols *s, struct jit_gdb *jit)
{
	uint64_t now = clock_now_ns();
	struct variable found;

	if (jit->descriptor)
		return true;
	if (symbols_is_32bit(s) || (jit->looked_ns && now - jit->looked_ns < LOOK_AGAIN_NS))
		return false;
	jit->looked_ns = now;
	if (!symbols_find(s, "__jit_debug_descriptor", &found) && !found.is_function)
		jit->descriptor = found.address;
	return jit->descriptor != 0;
}

/* The first entry, or 0. */
static uint64_t list_begin(struct symbols *s, const struct jit_gdb *jit)
{
	struct descriptor d;

	return symbols_read(s, jit->descriptor, &d, sizeof(d)) || d.version != 1 ? 0 : d.first;
}

bool jit_gdb_has_changed(struct symbols *s, struct jit_gdb *jit)
{
	uint64_t state = 0;
	struct entry e;
	uint32_t n = 0;

	if (!find_descriptor(s, jit))
		return false;
	for (uint64_t at = list_begin(s, jit); at && n < ENTRIES_MAX; at = e.next, n++) {
		if (symbols_read(s, at, &e, sizeof(e)))
			break;
		state = (state ^ at ^ e.file << 7 ^ e.size) * HASH_MIX + 1;
	}
	bool differs = state != jit->state;
	jit->state = state;
	return differs;
}

/*
 * In a file that was not linked a symbol counts from its section, whose location the runtime has
 * filled in.
 */
static bool address_of(Elf *elf, const GElf_Ehdr *header, const GElf_Sym *sym, uint64_t *out)
{
	GElf_Shdr section;

	*out = sym->st_value;
	if (header->e_type != ET_REL)
		return *out != 0;
	Elf_Scn *scn = elf_getscn(elf, sym->st_shndx);
	if (!scn || !gelf_getshdr(scn, &section) || !section.sh_addr)
		return false;
	*out += section.sh_addr;
	return true;
}

static bool read_symbols(Elf *elf, const GElf_Ehdr *header, Elf_Scn *table,
			 bool (*visit)(void *arg, uint64_t start, uint64_t size, const char *name),
			 void *arg)
{
	Elf_Data *data = elf_getdata(table, NULL);
	GElf_Shdr section;
	GElf_Sym sym;

	if (!data || !gelf_getshdr(table, &section))
		return true;
	for (int i = 1; gelf_getsym(data, i, &sym); i++) {
		uint64_t start;
		if (GELF_ST_TYPE(sym.st_info) != STT_FUNC || sym.st_shndx == SHN_UNDEF ||
		    !sym.st_size || !address_of(elf, header, &sym, &start))
			continue;
		const char *name = elf_strptr(elf, section.sh_link, sym.st_name);
		if (name && name[0] && !visit(arg, start, sym.st_size, name))
			return false;
	}
	return true;
}

static bool read_file(char *bytes, size_t size,
		      bool (*visit)(void *arg, uint64_t start, uint64_t size, const char *name),
		      void *arg)
{
	Elf *elf = elf_memory(bytes, size);
	Elf_Scn *scn = NULL;
	GElf_Ehdr header;
	GElf_Shdr section;
	bool go_on = true;

	if (elf && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &header))
		while (go_on && (scn = elf_nextscn(elf, scn)))
			if (gelf_getshdr(scn, &section) && section.sh_type == SHT_SYMTAB)
				go_on = read_symbols(elf, &header, scn, visit, arg);
	elf_end(elf);
	return go_on;
}

void jit_gdb_read(struct symbols *s, const struct jit_gdb *jit,
		  bool (*visit)(void *arg, uint64_t start, uint64_t size, const char *name),
		  void *arg)
{
	bool go_on = jit->descriptor != 0;
	uint64_t left = BYTES_MAX;
	struct entry e;
	uint32_t n = 0;

	for (uint64_t at = go_on ? list_begin(s, jit) : 0; at && go_on && n < ENTRIES_MAX;
	     at = e.next, n++) {
		if (symbols_read(s, at, &e, sizeof(e)))
			return;
		char *bytes = e.size && e.size <= left ? malloc(e.size) : NULL;
		left -= bytes ? e.size : 0;
		if (bytes && !symbols_read(s, e.file, bytes, e.size))
			go_on = read_file(bytes, e.size, visit, arg);
		free(bytes);
	}
}
