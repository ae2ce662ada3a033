/* SPDX-License-Identifier: MIT */
/*
 * go.c - see go.h.
 *
 * The layout is that of runtime.pcHeader and runtime._func in Go's runtime (symtab.go), 1.18 and
 * later. No number in the table is trusted: each is checked against its size.
 */
#include "report/dwarf/go.h"

#include "report/dwarf/sections.h"
#include "report/safe/busy.h"
#include "report/safe/clean.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC_1_18 0xfffffff0u
#define MAGIC_1_20 0xfffffff1u

/* Where things are in the header, 8 bytes each. */
enum {
	HEADER_FUNCTIONS = 8,
	HEADER_TEXT = 24,
	HEADER_NAMES = 32,
	HEADER_UNITS = 40,
	HEADER_FILES = 48,
	HEADER_VALUES = 56,
	HEADER_TABLE = 64,
	HEADER_BYTES = 72
};

/* In struct _func, 4 bytes each. */
enum {
	FUNC_NAME = 4,
	FUNC_FILE = 20,
	FUNC_LINE = 24,
	FUNC_UNIT = 32,
	FUNC_BYTES = 36
};

struct go_table {
	struct go_table *next;
	Dwfl_Module *mod;
	bool is_go;
	bool has_symbols;    /* of its own: nothing is to be added */
	const uint8_t *data; /* NULL: not Go, or a table of another version */
	size_t size;
	uint64_t text;	/* where the functions begin, in the process */
	uint64_t count; /* functions */
	uint64_t table;
};

static uint64_t go_number_at(const struct go_table *t, uint64_t at, size_t bytes)
{
	uint64_t value = 0;

	if (at <= t->size && t->size - at >= bytes)
		memcpy(&value, t->data + at, bytes);
	return value;
}

static const char *text_at(const struct go_table *t, uint64_t at)
{
	if (at >= t->size || !memchr(t->data + at, 0, t->size - at))
		return NULL;
	return (const char *)t->data + at;
}

/* The entry of function n, counted from text; its end is the next one's. */
static uint64_t go_entry_of(const struct go_table *t, uint64_t n)
{
	return go_number_at(t, t->table + 8 * n, 4);
}

static uint64_t func_of(const struct go_table *t, uint64_t n)
{
	return t->table + go_number_at(t, t->table + 8 * n + 4, 4);
}

static const char *name_of(const struct go_table *t, uint64_t n)
{
	uint64_t at = go_number_at(t, func_of(t, n) + FUNC_NAME, 4);

	return clean_name(text_at(t, go_number_at(t, HEADER_NAMES, 8) + at));
}

static Elf_Scn *section_find(Elf *elf, const char *name, uint32_t type, GElf_Shdr *header)
{
	Elf_Scn *scn = NULL;
	const char *its;

	while ((its = section_next(elf, &scn, header)))
		if (name ? strstr(its, name) != NULL : header->sh_type == type)
			return scn;
	return NULL;
}

/* The loader writes it into a program that may be anywhere; others have it in the file. */
static uint64_t read_text_start(struct symbols *s, const struct go_table *t, Elf *elf,
				uint64_t header, uint64_t bias)
{
	GElf_Shdr text;
	uint64_t start = 0;

	if (s->pid && !symbols_read(s, header + HEADER_TEXT, &start, sizeof(start)) && start)
		return start;
	start = go_number_at(t, HEADER_TEXT, 8);
	if (start)
		return start + bias;
	return section_find(elf, ".text", 0, &text) ? text.sh_addr + bias : 0;
}

static void table_fill(struct symbols *s, struct go_table *t)
{
	GElf_Addr bias;
	GElf_Shdr header;
	GElf_Shdr other;
	Elf *elf = dwfl_module_getelf(t->mod, &bias);
	Elf_Scn *scn = elf ? section_find(elf, ".gopclntab", 0, &header) : NULL;
	Elf_Data *data = scn ? elf_rawdata(scn, NULL) : NULL;

	t->is_go = scn != NULL;
	if (!data || data->d_size < HEADER_BYTES)
		return;
	t->data = data->d_buf;
	t->size = data->d_size;
	t->has_symbols = section_find(elf, NULL, SHT_SYMTAB, &other) != NULL;
	uint64_t magic = go_number_at(t, 0, 4);
	uint64_t pointer_bytes = go_number_at(t, 7, 1);
	t->count = go_number_at(t, HEADER_FUNCTIONS, 8);
	t->table = go_number_at(t, HEADER_TABLE, 8);
	t->text = read_text_start(s, t, elf, header.sh_addr + bias, bias);
	bool fits = t->table < t->size && t->count < (t->size - t->table) / 8;
	if ((magic != MAGIC_1_18 && magic != MAGIC_1_20) || pointer_bytes != 8 || !fits ||
	    !t->count)
		t->data = NULL;
}

static void go_tables_free(struct symbols *s)
{
	while (s->go) {
		struct go_table *t = s->go;
		s->go = t->next;
		free(t);
	}
}

static const struct go_table *table_of(struct symbols *s, Dwfl_Module *mod)
{
	for (struct go_table *t = s->go; t; t = t->next)
		if (t->mod == mod)
			return t;
	struct go_table *t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->mod = mod;
	t->next = s->go;
	s->go = t;
	symbols_on_close(s, go_tables_free);
	table_fill(s, t);
	return t;
}

bool go_is(struct symbols *s, Dwfl_Module *mod)
{
	const struct go_table *t = table_of(s, mod);

	return t && t->is_go;
}

bool go_has_names(struct symbols *s, Dwfl_Module *mod)
{
	const struct go_table *t = table_of(s, mod);

	return t && t->data;
}

int symbols_is_go(struct symbols *s, uint64_t address)
{
	uint64_t to;

	if (s->like)
		return symbols_moved(s, address, &to) && symbols_is_go(s->like, to);
	Dwfl_Module *mod = symbols_module_of(s, address);

	return mod && go_is(s, mod);
}

/* The function that contains an address; false: none. */
static bool find_function(const struct go_table *t, uint64_t address, uint64_t *out)
{
	uint64_t pc = address - t->text;
	uint64_t low = 0;
	uint64_t high = t->count;

	if (address < t->text || pc >= go_entry_of(t, t->count) || pc < go_entry_of(t, 0))
		return false;
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;
		if (go_entry_of(t, middle) <= pc)
			low = middle;
		else
			high = middle;
	}
	*out = low;
	return true;
}

bool go_function(struct symbols *s, Dwfl_Module *mod, uint64_t address, uint64_t *start,
		 uint64_t *size)
{
	const struct go_table *t = table_of(s, mod);
	uint64_t n;

	if (!t || !t->data || !find_function(t, address, &n))
		return false;
	*start = t->text + go_entry_of(t, n);
	*size = go_entry_of(t, n + 1) - go_entry_of(t, n);
	return true;
}

static uint64_t varint(const struct go_table *t, uint64_t *at)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; shift < 35; shift += 7) {
		uint64_t byte = go_number_at(t, (*at)++, 1);
		value |= (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			break;
	}
	return value;
}

/* A value that changes along a function: pairs of how much, and for how many instruction units. */
static int64_t value_at(const struct go_table *t, uint64_t func, unsigned int which, uint64_t pc)
{
	uint64_t at = go_number_at(t, HEADER_VALUES, 8) + go_number_at(t, func + which, 4);
	uint64_t unit = go_number_at(t, 6, 1);
	uint64_t here = go_number_at(t, func, 4);
	int64_t value = -1;

	for (int first = 1; at < t->size; first = 0) {
		uint64_t delta = varint(t, &at);
		if (!delta && !first)
			break;
		value += (int64_t)(delta >> 1) ^ -(int64_t)(delta & 1);
		here += varint(t, &at) * unit;
		if (pc < here)
			return value;
	}
	return -1;
}

static void find_line(const struct go_table *t, uint64_t func, uint64_t pc, struct place *out)
{
	int64_t file = value_at(t, func, FUNC_FILE, pc);
	int64_t line = value_at(t, func, FUNC_LINE, pc);
	uint64_t unit = go_number_at(t, func + FUNC_UNIT, 4);

	if (file < 0 || line <= 0 || line > INT32_MAX)
		return;
	uint64_t at =
		go_number_at(t, go_number_at(t, HEADER_UNITS, 8) + 4 * (unit + (uint64_t)file), 4);
	out->file = text_at(t, go_number_at(t, HEADER_FILES, 8) + at);
	out->line = out->file ? (int)line : 0;
}

bool go_place(struct symbols *s, Dwfl_Module *mod, uint64_t address, struct place *out)
{
	BUSY;
	const struct go_table *t = table_of(s, mod);
	uint64_t n;

	if (!t || !t->data || t->has_symbols || !find_function(t, address, &n))
		return false;
	const char *name = name_of(t, n);
	if (!name || !name[0])
		return false;
	out->function = name;
	out->symbol = name;
	out->offset = address - t->text - go_entry_of(t, n);
	if (func_of(t, n) <= t->size && t->size - func_of(t, n) >= FUNC_BYTES)
		find_line(t, func_of(t, n), address - t->text, out);
	return true;
}

int go_walk(struct symbols *s, Dwfl_Module *mod, symbol_visitor visit, void *arg)
{
	const struct go_table *t = table_of(s, mod);
	int result = 0;

	if (!t || !t->data || t->has_symbols)
		return 0;
	for (uint64_t n = 0; n < t->count && !result; n++) {
		const char *name = name_of(t, n);
		GElf_Sym sym = { .st_info = GELF_ST_INFO(STB_GLOBAL, STT_FUNC),
				 .st_size = go_entry_of(t, n + 1) - go_entry_of(t, n) };
		if (name && name[0])
			result = visit(mod, name, &sym, t->text + go_entry_of(t, n), arg);
	}
	return result;
}
