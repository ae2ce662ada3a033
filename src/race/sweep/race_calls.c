/* SPDX-License-Identifier: MIT */
/*
 * race_calls.c - calls of the memory functions of libc.
 *
 * What such a function accesses is an access of its caller, and the caller is stalled
 * before the call. No trap is set inside libc, because the detector's own handler runs
 * there too.
 *
 * A call is identified by its slot in the linkage table, and a slot by its name in the
 * relocations of the object. It does not matter whether the slot has been bound yet.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "base/sys.h"
#include "race/race_priv.h"

#define RELOCATIONS_MAX TABLE_SIZE(65536u, 48u)
#define SOME 32u
#define NAMES_MAX (64u << 20)

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
	{ "strncpy", RACE_CALL_FILL },	    { "__strncpy_chk", RACE_CALL_FILL },
	{ "sprintf", RACE_CALL_PRINT },	    { "vsprintf", RACE_CALL_PRINT },
	{ "__sprintf_chk", RACE_CALL_PRINT }, { "__vsprintf_chk", RACE_CALL_PRINT },
	{ "snprintf", RACE_CALL_PRINT_N },  { "vsnprintf", RACE_CALL_PRINT_N },
	{ "__snprintf_chk", RACE_CALL_PRINT_N }, { "__vsnprintf_chk", RACE_CALL_PRINT_N },
	{ "strcat", RACE_CALL_APPEND },	    { "__strcat_chk", RACE_CALL_APPEND },
	{ "strlen", RACE_CALL_LENGTH },	    { "strdup", RACE_CALL_LENGTH },
	{ "puts", RACE_CALL_LENGTH },	    { "strcmp", RACE_CALL_COMPARE },
	{ "memcmp", RACE_CALL_COMPARE_N },  { "bcmp", RACE_CALL_COMPARE_N },
	{ "strncmp", RACE_CALL_COMPARE_N }, { "write", RACE_CALL_OUT },
	{ "pwrite", RACE_CALL_OUT },	    { "pwrite64", RACE_CALL_OUT },
	{ "send", RACE_CALL_OUT },	    { "sendto", RACE_CALL_OUT },
	{ "fwrite", RACE_CALL_OUT_OF },	    { "fputs", RACE_CALL_LENGTH },
	{ "strrchr", RACE_CALL_LENGTH },    { "strchr", RACE_CALL_FIRST },
	{ "strstr", RACE_CALL_FIRST },	    { "atoi", RACE_CALL_FIRST },
	{ "strtol", RACE_CALL_FIRST },	    { "strtoul", RACE_CALL_FIRST },
};

/* Those that never return. */
static const char *const last_functions[] = {
	"abort", "exit", "_exit", "_Exit", "quick_exit", "__assert", "__assert_fail",
	"__assert_perror_fail", "__stack_chk_fail", "__chk_fail", "__fortify_fail", "longjmp",
	"_longjmp", "siglongjmp", "__longjmp_chk", "pthread_exit", "thrd_exit", "err", "errx",
	"verr", "verrx", "__libc_start_main", "__cxa_throw", "__cxa_rethrow",
	"__cxa_bad_cast", "__cxa_bad_typeid", "__cxa_call_unexpected", "__cxa_pure_virtual",
	"__cxa_deleted_virtual", "__cxa_throw_bad_array_new_length",
	"__cxa_throw_bad_array_length", "_Unwind_Resume", "_ZSt9terminatev", "_ZSt10unexpectedv",
	"_ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE",
};

static int is_last(const char *name)
{
	/* std::__throw_... */
	if (!strncmp(name, "_ZSt", 4) && strstr(name, "__throw_"))
		return 1;
	for (size_t i = 0; i < sizeof(last_functions) / sizeof(last_functions[0]); i++)
		if (!strcmp(name, last_functions[i]))
			return 1;
	return 0;
}

static void note_last(struct race_calls *calls, uint64_t slot)
{
	if (calls->last_count < RACE_LAST_SLOTS)
		calls->last[calls->last_count++] = slot;
	else
		calls->is_last_full = 1;
}

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
	uint64_t name_bytes;
};

/* The slots of the linkage table, with all that names them: copied, for the object may be closed. */
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

static int read_dynamic(const struct race_module *m, struct dynamic *out)
{
	Elf64_Dyn row;

	memset(out, 0, sizeof(*out));
	for (uint64_t at = m->dynamic; race_copy(at, &row, sizeof(row)); at += sizeof(row)) {
		switch (row.d_tag) {
		case DT_NULL:
			return out->relocations && out->symbols && out->names &&
			       out->name_bytes;
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

/* How many symbols there are is not said: as many as the relocations name. */
static uint64_t count_symbols(const struct dynamic *d)
{
	uint64_t most = 0;
	Elf64_Rela some[SOME];
	uint64_t left = d->bytes / sizeof(*some);

	for (uint64_t at = d->relocations; left;) {
		uint64_t n = left < SOME ? left : SOME;

		if (!race_copy(at, some, n * sizeof(*some)))
			return 0;
		for (uint64_t i = 0; i < n; i++)
			if (ELF64_R_SYM(some[i].r_info) >= most)
				most = ELF64_R_SYM(some[i].r_info) + 1;
		at += n * sizeof(*some);
		left -= n;
	}
	return most;
}

/* 1: to be dropped. 0: the object calls none by name. -errno: it may call any. */
static int read_slots(const struct race_module *module, struct slots *out)
{
	struct dynamic d;

	if (!module->dynamic || !read_dynamic(module, &d) || !d.bytes)
		return 0;
	if (d.bytes > RELOCATIONS_MAX * sizeof(Elf64_Rela) || d.name_bytes > NAMES_MAX)
		return -E2BIG;
	out->count = d.bytes / sizeof(Elf64_Rela);
	out->symbol_count = count_symbols(&d);
	out->name_bytes = d.name_bytes;
	uint64_t symbol_bytes = out->symbol_count * sizeof(Elf64_Sym);
	if (!symbol_bytes || symbol_bytes > NAMES_MAX)
		return symbol_bytes ? -E2BIG : -EFAULT;
	out->bytes = d.bytes + symbol_bytes + d.name_bytes;
	out->rows = memory_map(out->bytes);
	if (memory_failed(out->rows))
		return -ENOMEM;
	out->symbols = (void *)((char *)out->rows + d.bytes);
	out->names = (char *)out->symbols + symbol_bytes;
	if (!race_copy(d.relocations, out->rows, d.bytes) ||
	    !race_copy(d.symbols, out->symbols, symbol_bytes) ||
	    !race_copy(d.names, out->names, d.name_bytes)) {
		drop_slots(out);
		return -EFAULT;
	}
	out->names[d.name_bytes - 1] = '\0';
	return 1;
}

/* NULL: it is none that calls go through. */
static const char *name_of(const struct slots *slots, uint64_t i)
{
	uint64_t symbol = ELF64_R_SYM(slots->rows[i].r_info);

	if (ELF64_R_TYPE(slots->rows[i].r_info) != R_X86_64_JUMP_SLOT ||
	    slots->symbols[symbol].st_name >= slots->name_bytes)
		return NULL;
	return slots->names + slots->symbols[symbol].st_name;
}

void race_calls_find(const struct race_module *module, struct race_calls *out)
{
	struct slots slots;

	out->count = out->last_count = out->is_last_full = 0;
	int err = read_slots(module, &slots);
	/* Of calls whose names are not known, any may be one that never returns. */
	if (err < 0) {
		race_count(RACE_LOST_TABLES);
		out->is_last_full = 1;
	}
	if (err <= 0)
		return;
	for (uint64_t i = 0; i < slots.count; i++) {
		const char *name = name_of(&slots, i);
		enum race_call kind = name ? kind_of(name) : RACE_CALL_NONE;

		if (name && is_last(name))
			note_last(out, module->bias + slots.rows[i].r_offset);
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

uint64_t race_call_slot(const struct race_module *m, const struct insn *insn, uint64_t pc)
{
	if (insn->kind == INSN_CALL || insn->kind == INSN_JUMP)
		return slot_of_stub(m, pc + (uint64_t)insn->target);
	if (insn->kind == INSN_CALL_INDIRECT && insn->flags & INSN_PC_RELATIVE)
		return pc + (uint64_t)insn->target;
	return 0;
}

int race_call_is_last(const struct race_calls *calls, uint64_t slot)
{
	for (uint32_t i = 0; i < calls->last_count; i++)
		if (calls->last[i] == slot)
			return 1;
	return calls->is_last_full != 0;
}

enum race_call race_call_of(const struct race_calls *calls, const struct race_module *m,
			    const struct insn *insn, uint64_t pc)
{
	uint64_t slot = calls->count ? race_call_slot(m, insn, pc) : 0;

	for (uint32_t i = 0; slot && i < calls->count; i++)
		if (calls->rows[i].slot == slot)
			return calls->rows[i].kind;
	return RACE_CALL_NONE;
}
