/* SPDX-License-Identifier: MIT */
/* linkage.c - see linkage.h. */
#include "code/reach/linkage.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "base/memory.h"

#define DYNAMIC_MAX 4096u
#define TABLE_BYTES_MAX (64u << 20)
#define NAMES_MAX (64u << 20)
#define SOME 32u
#define CHAIN_MAX 4096u /* symbols of one hash value */
#define HEADER_WORDS 4u /* of DT_GNU_HASH */

#if defined(__x86_64__)
#define TYPE_LINKAGE R_X86_64_JUMP_SLOT
#define TYPE_ADDRESS R_X86_64_GLOB_DAT
#else
#define TYPE_LINKAGE R_AARCH64_JUMP_SLOT
#define TYPE_ADDRESS R_AARCH64_GLOB_DAT
#endif

static int linkage_copy(const struct linkage_memory *m, uint64_t address, void *to, size_t n)
{
	return m->copy(m->arg, address, to, n);
}

void linkage_header(struct linkage_object *o, const Elf64_Phdr *p)
{
	const uint64_t from = o->bias + p->p_vaddr;

	if (p->p_type == PT_DYNAMIC)
		o->dynamic = from;
	if (p->p_type != PT_LOAD)
		return;
	if (!o->end || from < o->start)
		o->start = from & ~(uint64_t)(PAGE_BYTES - 1);
	if (from + p->p_memsz > o->end)
		o->end = from + p->p_memsz;
	if (p->p_flags & PF_X && p->p_filesz > o->text_end - o->text_start) {
		o->text_start = from;
		o->text_end = from + p->p_filesz;
	}
}

void linkage_add(struct linkage *l, const struct linkage_object *object)
{
	if (l->count == LINKAGE_OBJECTS)
		l->is_full = 1;
	else
		l->objects[l->count++] = *object;
}

static void forget(struct linkage_object *o)
{
	if (o->slots)
		memory_unmap(o->slots, o->slot_count * sizeof(*o->slots));
	o->slots = NULL;
}

void linkage_clear(struct linkage *l)
{
	for (uint32_t i = 0; i < l->count; i++)
		forget(&l->objects[i]);
	l->count = l->is_full = 0;
}

struct linkage_object *linkage_at(struct linkage *l, uint64_t address)
{
	for (uint32_t i = 0; i < l->count; i++)
		if (address - l->objects[i].start < l->objects[i].end - l->objects[i].start)
			return &l->objects[i];
	return NULL;
}

/* The loader has made addresses of some of these numbers, and left others as they were. */
static uint64_t linkage_address(const struct linkage_object *o, uint64_t value)
{
	return value < o->start ? o->bias + value : value;
}

static void take_row(struct linkage_object *o, const Elf64_Dyn *row)
{
	uint64_t value = row->d_un.d_val;

	switch (row->d_tag) {
	case DT_JMPREL:
		o->tables[0].at = linkage_address(o, value);
		break;
	case DT_PLTRELSZ:
		o->tables[0].bytes = value;
		break;
	case DT_RELA:
		o->tables[1].at = linkage_address(o, value);
		break;
	case DT_RELASZ:
		o->tables[1].bytes = value;
		break;
	case DT_RELACOUNT:
		o->unnamed = value;
		break;
	case DT_SYMTAB:
		o->symbols = linkage_address(o, value);
		break;
	case DT_STRTAB:
		o->names = linkage_address(o, value);
		break;
	case DT_STRSZ:
		o->name_bytes = value;
		break;
	case DT_GNU_HASH:
		o->gnu_hash = linkage_address(o, value);
		break;
	case DT_HASH:
		o->hash = linkage_address(o, value);
		break;
	}
}

/* The loader looks for no name in the first ones, and neither does this. */
static void skip_unnamed(struct linkage_table *t, uint64_t count)
{
	const uint64_t bytes = count < t->bytes / sizeof(Elf64_Rela) ? count * sizeof(Elf64_Rela) :
								       t->bytes;

	if (!t->at)
		return;
	t->at += bytes;
	t->bytes -= bytes;
}

static int read_rows(const struct linkage_memory *m, struct linkage_object *o)
{
	uint64_t at = o->dynamic;
	Elf64_Dyn row;

	for (uint32_t i = 0; i < DYNAMIC_MAX; i++, at += sizeof(row)) {
		if (!linkage_copy(m, at, &row, sizeof(row)))
			return 0;
		if (row.d_tag == DT_NULL) {
			skip_unnamed(&o->tables[1], o->unnamed);
			return 1;
		}
		take_row(o, &row);
	}
	return 0;
}

static int is_for_calls(const Elf64_Rela *row)
{
	uint64_t type = ELF64_R_TYPE(row->r_info);

	return ELF64_R_SYM(row->r_info) && (type == TYPE_LINKAGE || type == TYPE_ADDRESS);
}

/*
 * Counts the words that have names, and notes them if there is room. 0: the table cannot be read.
 */
static int linkage_table(const struct linkage_memory *m, const struct linkage_object *o,
			 const struct linkage_table *t, struct linkage_slot *slots, uint64_t room,
			 uint64_t *count)
{
	Elf64_Rela some[SOME];
	uint64_t left = t->at ? t->bytes / sizeof(*some) : 0;

	if (t->bytes > TABLE_BYTES_MAX)
		return 0;
	for (uint64_t at = t->at; left;) {
		uint64_t n = left < SOME ? left : SOME;

		if (!linkage_copy(m, at, some, n * sizeof(*some)))
			return 0;
		for (uint64_t i = 0; i < n; i++) {
			if (!is_for_calls(&some[i]))
				continue;
			if (*count < room)
				slots[*count] =
					(struct linkage_slot){ o->bias + some[i].r_offset,
							       ELF64_R_SYM(some[i].r_info) };
			++*count;
		}
		at += n * sizeof(*some);
		left -= n;
	}
	return 1;
}

static int linkage_tables(const struct linkage_memory *m, const struct linkage_object *o,
			  struct linkage_slot *slots, uint64_t room, uint64_t *count)
{
	*count = 0;
	return linkage_table(m, o, &o->tables[0], slots, room, count) &&
	       linkage_table(m, o, &o->tables[1], slots, room, count);
}

/* The program may write to its tables in the meantime: then they do not fit, and are not known. */
static int linkage_slots(const struct linkage_memory *m, struct linkage_object *o)
{
	struct linkage_slot *slots;
	uint64_t count;
	uint64_t again;

	if (!linkage_tables(m, o, NULL, 0, &count))
		return 0;
	if (!count)
		return 1;
	slots = memory_map(count * sizeof(*slots));
	if (memory_failed(slots))
		return 0;
	if (!linkage_tables(m, o, slots, count, &again) || again != count) {
		memory_unmap(slots, count * sizeof(*slots));
		return 0;
	}
	o->slots = slots;
	o->slot_count = count;
	return 1;
}

static void need_tables(const struct linkage_memory *m, struct linkage_object *o)
{
	if (o->is_read)
		return;
	o->is_read = 1;
	if (o->dynamic && (!read_rows(m, o) || !o->symbols || !o->names || !linkage_slots(m, o)))
		o->is_unreadable = 1;
}

/* 1: all of it, with its end. */
static int linkage_text(const struct linkage_memory *m, const struct linkage_object *o, uint64_t at,
			char name[LINKAGE_NAME_MAX])
{
	size_t n = LINKAGE_NAME_MAX - 1;

	if (at >= o->name_bytes)
		return 0;
	if (n > o->name_bytes - at)
		n = o->name_bytes - at;
	memset(name, 0, LINKAGE_NAME_MAX);
	return linkage_copy(m, o->names + at, name, n) && memchr(name, '\0', n) != NULL;
}

static int linkage_symbol(const struct linkage_memory *m, const struct linkage_object *o,
			  uint64_t number, Elf64_Sym *out)
{
	return linkage_copy(m, o->symbols + number * sizeof(*out), out, sizeof(*out));
}

int linkage_name(struct linkage *l, struct linkage_object *o, uint64_t word,
		 char name[LINKAGE_NAME_MAX])
{
	Elf64_Sym symbol;
	uint64_t i = 0;

	need_tables(&l->memory, o);
	if (o->is_unreadable)
		return -EFAULT;
	while (i < o->slot_count && o->slots[i].address != word)
		i++;
	if (i == o->slot_count)
		return 0;
	if (!linkage_symbol(&l->memory, o, o->slots[i].symbol, &symbol) ||
	    !linkage_text(&l->memory, o, symbol.st_name, name))
		return -EFAULT;
	return 1;
}

/* Is it a function of that name, which the object defines? */
static enum linkage_definition check_symbol(const struct linkage_memory *m,
					    const struct linkage_object *o, uint64_t number,
					    const char *name, uint64_t *address)
{
	char own[LINKAGE_NAME_MAX];
	Elf64_Sym symbol;

	if (!linkage_symbol(m, o, number, &symbol) || symbol.st_shndx == SHN_UNDEF ||
	    symbol.st_shndx == SHN_ABS || !linkage_text(m, o, symbol.st_name, own) ||
	    strcmp(own, name) != 0)
		return LINKAGE_NONE;
	*address = o->bias + symbol.st_value;
	switch (ELF64_ST_TYPE(symbol.st_info)) {
	case STT_GNU_IFUNC:
		return LINKAGE_CHOOSER;
	case STT_FUNC:
	case STT_NOTYPE:
		return LINKAGE_FUNCTION;
	}
	return LINKAGE_NONE;
}

/* The table of https://sourceware.org/gnu-gabi/program-loading-and-dynamic-linking.txt. */
static enum linkage_definition find_by_gnu_hash(const struct linkage_memory *m,
						const struct linkage_object *o, const char *name,
						uint64_t *address)
{
	uint32_t header[HEADER_WORDS]; /* buckets, first symbol, words of the filter, shift */
	uint32_t hash = 5381;
	uint64_t filter;
	uint32_t number;
	uint32_t value;

	for (const char *c = name; *c; c++)
		hash = hash * 33 + (uint8_t)*c;
	if (!linkage_copy(m, o->gnu_hash, header, sizeof(header)) || !header[0] || !header[2])
		return LINKAGE_NONE;
	uint64_t at = o->gnu_hash + sizeof(header);
	if (!linkage_copy(m, at + hash / 64 % header[2] * sizeof(filter), &filter,
			  sizeof(filter)) ||
	    !(filter >> hash % 64 & filter >> (hash >> (header[3] & 31)) % 64 & 1))
		return LINKAGE_NONE;
	at += (uint64_t)header[2] * sizeof(filter);
	if (!linkage_copy(m, at + hash % header[0] * sizeof(number), &number, sizeof(number)) ||
	    number < header[1])
		return LINKAGE_NONE;
	at += (uint64_t)header[0] * sizeof(number);
	for (uint32_t i = 0; i < CHAIN_MAX; i++, number++) {
		enum linkage_definition found = LINKAGE_NONE;

		if (!linkage_copy(m, at + (uint64_t)(number - header[1]) * sizeof(value), &value,
				  sizeof(value)))
			break;
		if ((value | 1) == (hash | 1))
			found = check_symbol(m, o, number, name, address);
		if (found || value & 1)
			return found;
	}
	return LINKAGE_NONE;
}

/* The table of the System V ABI: buckets, symbols, the first symbol of each, the next of each. */
static enum linkage_definition find_by_hash(const struct linkage_memory *m,
					    const struct linkage_object *o, const char *name,
					    uint64_t *address)
{
	uint32_t header[2];
	uint32_t hash = 0;
	uint32_t number;

	for (const char *c = name; *c; c++) {
		hash = (hash << 4) + (uint8_t)*c;
		hash = (hash ^ (hash & 0xf0000000) >> 24) & 0x0fffffff;
	}
	if (!linkage_copy(m, o->hash, header, sizeof(header)) || !header[0])
		return LINKAGE_NONE;
	uint64_t at = o->hash + sizeof(header) + hash % header[0] * sizeof(number);
	for (uint32_t i = 0; i < CHAIN_MAX; i++) {
		if (!linkage_copy(m, at, &number, sizeof(number)) || !number)
			break;
		enum linkage_definition found = check_symbol(m, o, number, name, address);
		if (found)
			return found;
		at = o->hash + sizeof(header) + ((uint64_t)header[0] + number) * sizeof(number);
	}
	return LINKAGE_NONE;
}

enum linkage_definition linkage_find(struct linkage *l, struct linkage_object *o, const char *name,
				     uint64_t *address)
{
	const struct linkage_memory *m = &l->memory;

	need_tables(m, o);
	if (!o->symbols || !o->names)
		return LINKAGE_NONE;
	if (o->gnu_hash)
		return find_by_gnu_hash(m, o, name, address);
	return o->hash ? find_by_hash(m, o, name, address) : LINKAGE_NONE;
}

/* ---- all names ---- */

/* Symbols as far as words have them, and behind these all names: copied at once. */
struct names {
	void *memory;
	uint64_t bytes;
	const Elf64_Sym *symbols;
	char *texts;
	uint64_t text_bytes;
};

static int copy_names(const struct linkage_memory *m, const struct linkage_object *o,
		      struct names *out)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < o->slot_count; i++)
		if (o->slots[i].symbol >= count)
			count = o->slots[i].symbol + 1;
	if (count > NAMES_MAX / sizeof(Elf64_Sym) || o->name_bytes > NAMES_MAX || !o->name_bytes)
		return -E2BIG;
	const uint64_t symbol_bytes = count * sizeof(Elf64_Sym);
	out->bytes = symbol_bytes + o->name_bytes;
	out->memory = memory_map(out->bytes);
	if (memory_failed(out->memory))
		return -ENOMEM;
	out->symbols = out->memory;
	out->texts = (char *)out->memory + symbol_bytes;
	out->text_bytes = o->name_bytes;
	if (linkage_copy(m, o->symbols, out->memory, symbol_bytes) &&
	    linkage_copy(m, o->names, out->texts, o->name_bytes)) {
		out->texts[out->text_bytes - 1] = '\0';
		return 0;
	}
	memory_unmap(out->memory, out->bytes);
	return -EFAULT;
}

int linkage_each_name(const struct linkage_memory *m, struct linkage_object *o,
		      int (*each)(void *arg, uint64_t word, const char *name, unsigned int type),
		      void *arg)
{
	struct names names;
	int err = 0;

	need_tables(m, o);
	if (o->is_unreadable)
		return -EFAULT;
	if (o->slot_count)
		err = copy_names(m, o, &names);
	if (!o->slot_count || err) {
		forget(o);
		return err;
	}
	for (uint64_t i = 0; i < o->slot_count && !err; i++) {
		const Elf64_Sym *symbol = &names.symbols[o->slots[i].symbol];

		if (symbol->st_name < names.text_bytes)
			err = each(arg, o->slots[i].address, names.texts + symbol->st_name,
				   ELF64_ST_TYPE(symbol->st_info));
	}
	memory_unmap(names.memory, names.bytes);
	forget(o);
	return err;
}
