/* SPDX-License-Identifier: MIT */
/*
 * race_calls.c - calls of the memory functions of libc.
 *
 * What such a function accesses is an access of its caller, and the caller is stalled
 * before the call. No trap is set inside libc, because the detector's own handler runs
 * there too.
 *
 * A call is identified by the word that it leads through, and that by its name in the relocations
 * of the object. It does not matter whether the word has been filled yet. It is a slot of the
 * linkage table, or one of the addresses that the loader fills in at the start. What is compiled
 * with -fno-plt calls through these, and so does a stub of a function whose address is taken too.
 */
#include "race/sweep/race_calls.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "base/sys.h"
#include "base/table_size.h"
#include "code/insn/insn.h"
#include "race/race_modules.h"
#include "race/race_state.h"
#include "record/race_region.h"

#define RELOCATIONS_MAX TABLE_SIZE(65536u, 48u)
#define SOME 32u
#define NAMES_MAX (64u << 20)
#define TABLE_BYTES_MAX (64u << 20)

static const struct {
	const char *name;
	enum race_call kind;
} functions[] = {
	{ "memcpy", RACE_CALL_COPY },
	{ "memmove", RACE_CALL_COPY },
	{ "mempcpy", RACE_CALL_COPY },
	{ "__memcpy_chk", RACE_CALL_COPY },
	{ "__memmove_chk", RACE_CALL_COPY },
	{ "__mempcpy_chk", RACE_CALL_COPY },
	{ "memset", RACE_CALL_FILL },
	{ "__memset_chk", RACE_CALL_FILL },
	{ "strcpy", RACE_CALL_STRING },
	{ "stpcpy", RACE_CALL_STRING },
	{ "__strcpy_chk", RACE_CALL_STRING },
	{ "__stpcpy_chk", RACE_CALL_STRING },
	{ "strncpy", RACE_CALL_FILL },
	{ "__strncpy_chk", RACE_CALL_FILL },
	{ "sprintf", RACE_CALL_PRINT },
	{ "vsprintf", RACE_CALL_PRINT },
	{ "__sprintf_chk", RACE_CALL_PRINT },
	{ "__vsprintf_chk", RACE_CALL_PRINT },
	{ "snprintf", RACE_CALL_PRINT_N },
	{ "vsnprintf", RACE_CALL_PRINT_N },
	{ "__snprintf_chk", RACE_CALL_PRINT_N },
	{ "__vsnprintf_chk", RACE_CALL_PRINT_N },
	{ "strcat", RACE_CALL_APPEND },
	{ "__strcat_chk", RACE_CALL_APPEND },
	{ "strlen", RACE_CALL_LENGTH },
	{ "strdup", RACE_CALL_LENGTH },
	{ "puts", RACE_CALL_LENGTH },
	{ "strcmp", RACE_CALL_COMPARE },
	{ "memcmp", RACE_CALL_COMPARE_N },
	{ "bcmp", RACE_CALL_COMPARE_N },
	{ "strncmp", RACE_CALL_COMPARE_N },
	{ "write", RACE_CALL_OUT },
	{ "pwrite", RACE_CALL_OUT },
	{ "pwrite64", RACE_CALL_OUT },
	{ "send", RACE_CALL_OUT },
	{ "sendto", RACE_CALL_OUT },
	{ "fwrite", RACE_CALL_OUT_OF },
	{ "fputs", RACE_CALL_LENGTH },
	{ "strrchr", RACE_CALL_LENGTH },
	{ "strchr", RACE_CALL_FIRST },
	{ "strstr", RACE_CALL_FIRST },
	{ "atoi", RACE_CALL_FIRST },
	{ "strtol", RACE_CALL_FIRST },
	{ "strtoul", RACE_CALL_FIRST },
};

static enum race_call kind_of(const char *name)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!strcmp(name, functions[i].name))
			return functions[i].kind;
	return RACE_CALL_NONE;
}

struct table {
	uint64_t at;
	uint64_t bytes;
};

struct dynamic {
	struct table linkage;
	struct table others; /* behind those that have no name, if they are counted */
	uint64_t symbols;
	uint64_t names;
	uint64_t name_bytes;
};

/*
 * The words that calls go through, and all that names them: copied, for the object may be closed.
 */
struct slots {
	uint64_t bytes; /* of everything, behind the relocations too */
	uint64_t count;
	Elf64_Rela *rows;
	uint64_t symbol_count;
	Elf64_Sym *symbols;
	uint64_t name_bytes;
	char *names; /* the last one ends */
};

/* The loader has made addresses of some of these numbers, and left others as they were. */
static uint64_t address_of(const struct race_module *m, uint64_t value)
{
	return value < m->start ? m->bias + value : value;
}

/* The loader looks for no name in the first ones, and neither does this. */
static void skip_unnamed(struct table *t, uint64_t count)
{
	uint64_t bytes = count < t->bytes / sizeof(Elf64_Rela) ? count * sizeof(Elf64_Rela) :
								 t->bytes;

	t->at += bytes;
	t->bytes -= bytes;
}

static int read_dynamic(const struct race_module *m, struct dynamic *out)
{
	uint64_t unnamed = 0;
	Elf64_Dyn row;

	memset(out, 0, sizeof(*out));
	for (uint64_t at = m->dynamic; race_copy(at, &row, sizeof(row)); at += sizeof(row)) {
		switch (row.d_tag) {
		case DT_NULL:
			if (out->others.at)
				skip_unnamed(&out->others, unnamed);
			return out->symbols && out->names && out->name_bytes;
		case DT_JMPREL:
			out->linkage.at = address_of(m, row.d_un.d_ptr);
			break;
		case DT_PLTRELSZ:
			out->linkage.bytes = row.d_un.d_val;
			break;
		case DT_RELA:
			out->others.at = address_of(m, row.d_un.d_ptr);
			break;
		case DT_RELASZ:
			out->others.bytes = row.d_un.d_val;
			break;
		case DT_RELACOUNT:
			unnamed = row.d_un.d_val;
			break;
		case DT_SYMTAB:
			out->symbols = address_of(m, row.d_un.d_ptr);
			break;
		case DT_STRTAB:
			out->names = address_of(m, row.d_un.d_ptr);
			break;
		case DT_STRSZ:
			out->name_bytes = row.d_un.d_val;
			break;
		}
	}
	return 0;
}

static void drop_slots(struct slots *slots)
{
	memory_unmap(slots->rows, slots->bytes);
}

/* An address that the loader finds by a name, and that calls may go through. */
static int is_named(const Elf64_Rela *row)
{
	uint64_t type = ELF64_R_TYPE(row->r_info);

	return ELF64_R_SYM(row->r_info) &&
	       (type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT);
}

/*
 * Go through a table. The rows that are named are counted, copied if there is room for them, and
 * how many symbols there are is as many as they name: it is not stated. 0: the table cannot be
 * read.
 */
static int read_table(const struct table *t, struct slots *out, uint64_t room)
{
	Elf64_Rela some[SOME];
	uint64_t left = t->at ? t->bytes / sizeof(*some) : 0;

	for (uint64_t at = t->at; left;) {
		uint64_t n = left < SOME ? left : SOME;

		if (!race_copy(at, some, n * sizeof(*some)))
			return 0;
		for (uint64_t i = 0; i < n; i++) {
			if (!is_named(&some[i]))
				continue;
			if (out->count < room)
				out->rows[out->count] = some[i];
			out->count++;
			if (ELF64_R_SYM(some[i].r_info) >= out->symbol_count)
				out->symbol_count = ELF64_R_SYM(some[i].r_info) + 1;
		}
		at += n * sizeof(*some);
		left -= n;
	}
	return 1;
}

static int read_tables(const struct dynamic *d, struct slots *out, uint64_t room)
{
	out->count = out->symbol_count = 0;
	return read_table(&d->linkage, out, room) && read_table(&d->others, out, room);
}

/*
 * Room for what was counted. The program may write to its tables: then they do not fit, and are
 * lost.
 */
static int copy_slots(const struct dynamic *d, struct slots *out)
{
	uint64_t row_bytes = out->count * sizeof(Elf64_Rela);
	uint64_t symbol_bytes = out->symbol_count * sizeof(Elf64_Sym);
	uint64_t count = out->count;
	uint64_t symbol_count = out->symbol_count;

	out->name_bytes = d->name_bytes;
	out->bytes = row_bytes + symbol_bytes + d->name_bytes;
	out->rows = memory_map(out->bytes);
	if (memory_failed(out->rows))
		return -ENOMEM;
	out->symbols = (void *)((char *)out->rows + row_bytes);
	out->names = (char *)out->symbols + symbol_bytes;
	if (read_tables(d, out, count) && out->count == count &&
	    out->symbol_count == symbol_count &&
	    race_copy(d->symbols, out->symbols, symbol_bytes) &&
	    race_copy(d->names, out->names, d->name_bytes)) {
		out->names[d->name_bytes - 1] = '\0';
		return 1;
	}
	drop_slots(out);
	return -EFAULT;
}

/* 1: to be dropped. 0: the object calls none by name. -errno: it may call any. */
static int read_slots(const struct race_module *module, struct slots *out)
{
	struct dynamic d;

	if (!module->dynamic || !read_dynamic(module, &d))
		return 0;
	if (d.linkage.bytes > TABLE_BYTES_MAX || d.others.bytes > TABLE_BYTES_MAX ||
	    d.name_bytes > NAMES_MAX)
		return -E2BIG;
	if (!read_tables(&d, out, 0))
		return -EFAULT;
	if (!out->count)
		return 0;
	if (out->count > RELOCATIONS_MAX || out->symbol_count > NAMES_MAX / sizeof(Elf64_Sym))
		return -E2BIG;
	return copy_slots(&d, out);
}

/* NULL: it is not one that calls go through. */
static const char *name_of(const struct slots *slots, uint64_t i)
{
	const Elf64_Sym *symbol = &slots->symbols[ELF64_R_SYM(slots->rows[i].r_info)];

	if (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT || symbol->st_name >= slots->name_bytes)
		return NULL;
	return slots->names + symbol->st_name;
}

void race_calls_find(const struct race_module *module, struct race_calls *out)
{
	struct slots slots;

	out->count = 0;
	int err = read_slots(module, &slots);
	if (err < 0)
		race_count(RACE_LOST_TABLES);
	if (err <= 0)
		return;
	for (uint64_t i = 0; i < slots.count; i++) {
		const char *name = name_of(&slots, i);
		enum race_call kind = name ? kind_of(name) : RACE_CALL_NONE;

		if (kind && out->count == RACE_CALL_SLOTS)
			race_count(RACE_LOST_TABLES);
		if (!kind || out->count == RACE_CALL_SLOTS)
			continue;
		out->rows[out->count].slot = module->bias + slots.rows[i].r_offset;
		out->rows[out->count++].kind = kind;
	}
	drop_slots(&slots);
}

uint32_t race_imports_find(const struct race_module *module, uint64_t *out, uint32_t max)
{
	struct slots slots;
	uint32_t n = 0;

	if (read_slots(module, &slots) <= 0)
		return 0;
	for (uint64_t i = 0; i < slots.count && n < max; i++) {
		const char *name = name_of(&slots, i);
		uint64_t address = name ? (uintptr_t)dlsym(RTLD_DEFAULT, name) : 0;

		if (address)
			out[n++] = address;
	}
	drop_slots(&slots);
	return n;
}

/*
 * endbr64, bnd, and jmp *slot(%rip): what compilers and linkers put between. 0: it is not such a
 * slot.
 */
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

static uint64_t call_slot(const struct race_module *m, const struct insn *insn, uint64_t pc)
{
	if (insn->kind == INSN_CALL || insn->kind == INSN_JUMP)
		return slot_of_stub(m, pc + (uint64_t)insn->target);
	if (insn->flags & INSN_PC_RELATIVE &&
	    (insn->kind == INSN_CALL_INDIRECT || insn->kind == INSN_JUMP_INDIRECT))
		return pc + (uint64_t)insn->target;
	return 0;
}

enum race_call race_call_of(const struct race_calls *calls, const struct race_module *m,
			    const struct insn *insn, uint64_t pc)
{
	uint64_t slot = calls->count ? call_slot(m, insn, pc) : 0;

	for (uint32_t i = 0; slot && i < calls->count; i++)
		if (calls->rows[i].slot == slot)
			return calls->rows[i].kind;
	return RACE_CALL_NONE;
}
