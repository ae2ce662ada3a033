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

#include "base/table_size.h"
#include "code/insn/insn.h"
#include "code/reach/linkage.h"
#include "race/race_modules.h"
#include "race/race_state.h"
#include "record/race_region.h"

#define RELOCATIONS_MAX TABLE_SIZE(65536u, 48u)

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

static int copy(void *arg, uint64_t address, void *to, size_t n)
{
	return race_copy(address, to, n);
}

/* Copied, for the object may be closed. */
static int each_name(const struct race_module *module,
		     int (*each)(void *arg, uint64_t word, const char *name, unsigned int type),
		     void *arg)
{
	const struct linkage_memory memory = { copy, NULL };
	struct linkage_object o = { .start = module->start,
				    .end = module->end,
				    .bias = module->bias,
				    .dynamic = module->dynamic };

	return linkage_each_name(&memory, &o, each, arg);
}

struct calls_search {
	struct race_calls *out;
	uint32_t seen;
};

static int add_call(void *arg, uint64_t word, const char *name, unsigned int type)
{
	struct calls_search *s = arg;
	const enum race_call kind = type == STT_OBJECT ? RACE_CALL_NONE : kind_of(name);

	if (++s->seen > RELOCATIONS_MAX)
		return -E2BIG;
	if (kind && s->out->count == RACE_CALL_SLOTS)
		race_count(RACE_LOST_TABLES);
	if (!kind || s->out->count == RACE_CALL_SLOTS)
		return 0;
	s->out->rows[s->out->count].slot = word;
	s->out->rows[s->out->count++].kind = kind;
	return 0;
}

void race_calls_find(const struct race_module *module, struct race_calls *out)
{
	struct calls_search search = { .out = out };

	out->count = 0;
	if (each_name(module, add_call, &search) < 0)
		race_count(RACE_LOST_TABLES);
}

struct imports_search {
	uint64_t *out;
	uint32_t count;
	uint32_t max;
};

static int add_import(void *arg, uint64_t word, const char *name, unsigned int type)
{
	struct imports_search *s = arg;
	const uint64_t address = type == STT_OBJECT ? 0 : (uintptr_t)dlsym(RTLD_DEFAULT, name);

	if (address)
		s->out[s->count++] = address;
	return s->count == s->max;
}

uint32_t race_imports_find(const struct race_module *module, uint64_t *out, uint32_t max)
{
	struct imports_search search = { out, 0, max };

	each_name(module, add_import, &search);
	return search.count;
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
