/* SPDX-License-Identifier: MIT */
/*
 * patch_build_id.c - which build of an object a process runs.
 *
 * The file may have been replaced since the process started. So the build-id is that of the memory.
 */
#include "report/patch/patch_find.h"

#include "report/dwarf/symbols_priv.h"

#include <stdio.h>
#include <string.h>

#define BUILD_ID_MAX 32
#define NOTES_BYTES_MAX 4096
#define HEADERS_MAX 64
#define UP4(n) (((uint64_t)(n) + 3) & ~3ull)

struct build_id {
	uint8_t bytes[BUILD_ID_MAX];
	size_t n; /* 0: none */
};

static void note_find(const uint8_t *notes, uint64_t size, struct build_id *out)
{
	Elf64_Nhdr h;

	for (uint64_t at = 0; at + sizeof(h) <= size;) {
		memcpy(&h, notes + at, sizeof(h));
		uint64_t desc = at + sizeof(h) + UP4(h.n_namesz);
		uint64_t end = desc + UP4(h.n_descsz);
		if (end > size)
			return;
		if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 && h.n_descsz <= BUILD_ID_MAX &&
		    !memcmp(notes + at + sizeof(h), "GNU", 4)) {
			memcpy(out->bytes, notes + desc, h.n_descsz);
			out->n = h.n_descsz;
			return;
		}
		at = end;
	}
}

static void read_notes(struct symbols *s, uint64_t address, uint64_t size, struct build_id *out)
{
	uint8_t notes[NOTES_BYTES_MAX];

	if (size <= sizeof(notes) && !symbols_read(s, address, notes, size))
		note_find(notes, size, out);
}

/* From the headers that are mapped with the object. */
static void read_loaded(struct symbols *s, Dwfl_Module *mod, struct build_id *out)
{
	Dwarf_Addr start;
	Elf64_Ehdr eh;
	Elf64_Phdr ph[HEADERS_MAX];
	uint64_t bias = 0;
	bool has_bias = false;

	dwfl_module_info(mod, NULL, &start, NULL, NULL, NULL, NULL, NULL);
	if (symbols_read(s, start, &eh, sizeof(eh)) || memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 ||
	    eh.e_phnum > HEADERS_MAX || eh.e_phentsize != sizeof(ph[0]) ||
	    symbols_read(s, start + eh.e_phoff, ph, eh.e_phnum * sizeof(ph[0])))
		return;
	for (unsigned int i = 0; i < eh.e_phnum && !has_bias; i++) {
		has_bias = ph[i].p_type == PT_LOAD;
		bias = start - (ph[i].p_vaddr - ph[i].p_offset);
	}
	for (unsigned int i = 0; i < eh.e_phnum && has_bias && !out->n; i++)
		if (ph[i].p_type == PT_NOTE)
			read_notes(s, bias + ph[i].p_vaddr, ph[i].p_filesz, out);
}

void patch_find_build_id(struct symbols *s, uint64_t address, char *text, size_t n)
{
	Dwfl_Module *mod = symbols_module_of(s, address);
	struct build_id id = { .n = 0 };

	if (mod)
		read_loaded(s, mod, &id);
	text[0] = 0;
	for (size_t i = 0; i < id.n && 2 * i + 2 < n; i++)
		snprintf(text + 2 * i, n - 2 * i, "%02x", id.bytes[i]);
}

bool patch_find_is_other_file(struct symbols *s, uint64_t address)
{
	Dwfl_Module *mod = symbols_module_of(s, address);
	struct build_id id = { .n = 0 };
	const unsigned char *in_file;
	GElf_Addr at;
	GElf_Addr bias;

	if (!mod || !dwfl_module_getelf(mod, &bias))
		return false;
	read_loaded(s, mod, &id);
	int n = dwfl_module_build_id(mod, &in_file, &at);
	return id.n && n > 0 && ((size_t)n != id.n || memcmp(in_file, id.bytes, id.n) != 0);
}
