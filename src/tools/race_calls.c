/* SPDX-License-Identifier: MIT */
/*
 * race_calls.c - calls of libc's memory functions. What they touch is an access of their caller, and
 * he is held before the call: inside of libc no trap is put, since our handler runs there too.
 *
 * A call is known by the slot of the linkage table that it goes through, and a slot by its name in
 * the object's relocations: so it does not matter whether it has been bound yet.
 */
#include <elf.h>
#include <string.h>

#include "base/memory.h"
#include "base/sys.h"
#include "tools/race_priv.h"

#define NAME_MAX_BYTES 24
#define RELOCATIONS_MAX 65536u

static const struct {
	const char *name;
	enum race_call kind;
} functions[] = {
	{ "memcpy", RACE_CALL_COPY },	    { "memmove", RACE_CALL_COPY },
	{ "mempcpy", RACE_CALL_COPY },	    { "__memcpy_chk", RACE_CALL_COPY },
	{ "__memmove_chk", RACE_CALL_COPY }, { "__mempcpy_chk", RACE_CALL_COPY },
	{ "memset", RACE_CALL_FILL },	    { "__memset_chk", RACE_CALL_FILL },
	{ "strcpy", RACE_CALL_STRING },	    { "stpcpy", RACE_CALL_STRING },
	{ "__strcpy_chk", RACE_CALL_STRING }, { "__stpcpy_chk", RACE_CALL_STRING },
};

static enum race_call kind_of(const char *name)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!strcmp(name, functions[i].name))
			return functions[i].kind;
	return RACE_CALL_NONE;
}

struct dynamic {
	uint64_t relocations;
	uint64_t bytes;
	uint64_t symbols;
	uint64_t names;
};

/* The loader has made addresses of some of these numbers, and left others as they were. */
static uint64_t address_of(const struct race_module *m, uint64_t value)
{
	return value < m->start ? m->bias + value : value;
}

static int read_dynamic(const struct race_module *m, struct dynamic *out)
{
	Elf64_Dyn row;

	memset(out, 0, sizeof(*out));
	for (uint64_t at = m->dynamic; race_copy(at, &row, sizeof(row)); at += sizeof(row)) {
		switch (row.d_tag) {
		case DT_NULL:
			return out->relocations && out->symbols && out->names;
		case DT_JMPREL:
			out->relocations = address_of(m, row.d_un.d_ptr);
			break;
		case DT_PLTRELSZ:
			out->bytes = row.d_un.d_val;
			break;
		case DT_SYMTAB:
			out->symbols = address_of(m, row.d_un.d_ptr);
			break;
		case DT_STRTAB:
			out->names = address_of(m, row.d_un.d_ptr);
			break;
		}
	}
	return 0;
}

static void add_slot(const struct race_module *m, const struct dynamic *d,
		     const Elf64_Rela *relocation, struct race_calls *out)
{
	char name[NAME_MAX_BYTES];
	Elf64_Sym symbol;

	if (ELF64_R_TYPE(relocation->r_info) != R_X86_64_JUMP_SLOT ||
	    out->count == RACE_CALL_SLOTS ||
	    !race_copy(d->symbols + ELF64_R_SYM(relocation->r_info) * sizeof(symbol), &symbol,
		       sizeof(symbol)) ||
	    !race_copy(d->names + symbol.st_name, name, sizeof(name)))
		return;
	name[sizeof(name) - 1] = '\0';
	enum race_call kind = kind_of(name);
	if (!kind)
		return;
	out->rows[out->count].slot = m->bias + relocation->r_offset;
	out->rows[out->count++].kind = kind;
}

void race_calls_find(const struct race_module *module, struct race_calls *out)
{
	struct dynamic d;

	out->count = 0;
	if (!module->dynamic || !read_dynamic(module, &d) ||
	    d.bytes > RELOCATIONS_MAX * sizeof(Elf64_Rela) || !d.bytes)
		return;
	Elf64_Rela *rows = memory_map(d.bytes);
	if (memory_failed(rows))
		return;
	if (race_copy(d.relocations, rows, d.bytes))
		for (uint64_t i = 0; i < d.bytes / sizeof(*rows); i++)
			add_slot(module, &d, &rows[i], out);
	memory_unmap(rows, d.bytes);
}

/* endbr64, bnd, and jmp *slot(%rip): what compilers and linkers put between. 0: it is no such. */
static uint64_t slot_of_stub(const struct race_module *m, uint64_t stub)
{
	static const uint8_t landing[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	int32_t distance;

	if (stub < m->text_start || stub + 16 > m->text_end)
		return 0;
	const uint8_t *code = race_code(m, stub);
	size_t at = memcmp(code, landing, sizeof(landing)) ? 0 : sizeof(landing);
	at += code[at] == 0xf2;
	if (code[at] != 0xff || code[at + 1] != 0x25)
		return 0;
	memcpy(&distance, code + at + 2, sizeof(distance));
	return stub + at + 6 + (uint64_t)(int64_t)distance;
}

enum race_call race_call_of(const struct race_calls *calls, const struct race_module *m,
			    const struct insn *insn, uint64_t pc)
{
	uint64_t slot = 0;

	if (!calls->count)
		return RACE_CALL_NONE;
	if (insn->kind == INSN_CALL || insn->kind == INSN_JUMP)
		slot = slot_of_stub(m, pc + (uint64_t)insn->target);
	else if (insn->kind == INSN_CALL_INDIRECT && insn->flags & INSN_PC_RELATIVE)
		slot = pc + (uint64_t)insn->target;
	for (uint32_t i = 0; slot && i < calls->count; i++)
		if (calls->rows[i].slot == slot)
			return calls->rows[i].kind;
	return RACE_CALL_NONE;
}
