/* SPDX-License-Identifier: MIT */
/*
 * place.c - names for addresses, each looked up once.
 *
 * A hot site is hit thousands of times a second, so locations are kept in a tree by address.
 */
#include "report/dwarf/ada.h"
#include "report/dwarf/go.h"
#include "report/dwarf/jit_map.h"
#include "report/dwarf/same_code.h"
#include "report/dwarf/symbols_priv.h"
#include "report/dwarf/unit.h"
#include "report/safe/busy.h"
#include "report/safe/clean.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct cached_place {
	uint64_t address;
	struct place place;
};

/* The limit of debug information that is read for the names of functions with the same code. */
#define SAME_CODE_DEBUG_BYTES (32u << 20)

/* Code that is made at run time has ever new addresses: when the cache is full, it is emptied. */
#define CACHED_PLACES_MAX 65536u

/* Mangled, or with a version (__libc_start_main@@GLIBC_2.34); NULL: good as it is. */
static char *readable_name(const char *name)
{
	const char *version = strchr(name, '@');

	return version ? strndup(name, (size_t)(version - name)) : symbols_demangle(name);
}

struct holder {
	uint64_t address;
	Dwfl_Module *mod;
};

static int holder_visit(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
			void *arg)
{
	struct holder *h = arg;
	GElf_Addr bias;
	GElf_Phdr ph;
	size_t count;
	Elf *elf = dwfl_module_getelf(mod, &bias);

	if (!elf || elf_getphdrnum(elf, &count))
		return DWARF_CB_OK;
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_LOAD)
			continue;
		uint64_t start = ph.p_vaddr + bias;
		if (h->address - start < ph.p_memsz) {
			h->mod = mod;
			return DWARF_CB_ABORT;
		}
	}
	return DWARF_CB_OK;
}

/* Its .bss too, which no file is mapped to. */
Dwfl_Module *symbols_module_of(struct symbols *s, uint64_t address)
{
	BUSY;
	Dwfl_Module *mod = dwfl_addrmodule(s->dwfl, address);
	struct holder h = { .address = address };
	Dwarf_Addr start;
	Dwarf_Addr end;

	/* The last one is found for all that lies behind it too, such as the stack. */
	if (mod && dwfl_module_info(mod, NULL, &start, &end, NULL, NULL, NULL, NULL) &&
	    address >= start && address < end)
		return mod;
	dwfl_getmodules(s->dwfl, holder_visit, &h, 0);
	return h.mod;
}

/* Where sections begin and end: of no use as names for what lies behind. */
static bool is_mark(const char *name)
{
	static const char *const marks[] = { "data_start", "__data_start", "__bss_start", "_edata",
					     "edata",	   "_end",	   "end" };

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (!strcmp(name, marks[i]))
			return true;
	return false;
}

static void place_fill(struct symbols *s, Dwfl_Module *mod, struct cached_place *c)
{
	struct place *p = &c->place;
	GElf_Off offset;
	GElf_Sym sym;
	Dwarf_Addr start;
	GElf_Addr bias;

	p->module = symbols_module_name(mod);
	dwfl_module_info(mod, NULL, &start, NULL, NULL, NULL, NULL, NULL);
	/* What a disassembler of the file shows, so that the reader can look there. */
	p->module_offset = c->address - (dwfl_module_getelf(mod, &bias) ? bias : start);
	if (go_place(s, mod, c->address, p))
		return;
	p->function = clean_symbol_at(mod, c->address, &offset, &sym);
	if (p->function && offset && is_mark(p->function))
		p->function = NULL;
	p->symbol = p->function;
	if (p->function) {
		p->offset = offset;
		char ada[512];
		char *readable = readable_name(p->function);
		if (readable)
			p->function = clean_keep(readable);
		else if (ada_name(s, mod, c->address, p->function, ada, sizeof(ada)))
			p->function = clean_keep(ada);
		free(readable);
	}
	if (s->leaves_out_lines)
		return;
	/* Names of the system's functions are aliases by intention, and are in each stack. */
	if (p->function && !symbols_is_system(p->module))
		p->same_code = same_code_names(s, mod, c->address - offset, p->function,
					       SAME_CODE_DEBUG_BYTES);
	const char *folder = NULL;
	p->file = unit_line(mod, c->address, &p->line, &folder);
	p->file = unit_whole_path(p->file, folder);
}

void symbols_leave_out_lines(struct symbols *s)
{
	s->leaves_out_lines = true;
}

static int place_compare(const void *a, const void *b)
{
	const struct cached_place *x = a;
	const struct cached_place *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

static void places_free(struct symbols *s)
{
	tdestroy(s->places, free);
	s->places = NULL;
	s->place_count = 0;
}

static void place_moved(struct symbols *s, uint64_t address, struct place *out)
{
	uint64_t to;

	if (!symbols_moved(s, address, &to)) {
		jit_map_place(s, address, out);
		return;
	}
	symbols_place(s->like, to, out);
	if (s->like_module && (!out->module || strcmp(out->module, s->like_module) != 0))
		memset(out, 0, sizeof(*out));
}

void symbols_place(struct symbols *s, uint64_t address, struct place *out)
{
	BUSY;
	struct cached_place key = { .address = address };
	struct cached_place **found = tfind(&key, &s->places, place_compare);
	struct place made = { 0 };

	memset(out, 0, sizeof(*out));
	if (s->like) {
		place_moved(s, address, out);
		return;
	}
	if (found) {
		*out = (*found)->place;
		return;
	}
	Dwfl_Module *mod = symbols_module_of(s, address);
	if (!mod) {
		if (jit_map_place(s, address, out) || !symbols_refresh(s))
			return; /* perhaps known at the next try: not remembered */
		mod = symbols_module_of(s, address);
	}
	struct cached_place *c = calloc(1, sizeof(*c));
	if (!c)
		return;
	c->address = address;
	if (mod)
		place_fill(s, mod, c);
	/* Code made at run time may lie between the mappings of an object. It comes and goes. */
	if (!c->place.function && jit_map_place(s, address, &made)) {
		*out = made;
		free(c);
		return;
	}
	*out = c->place;
	if (s->place_count == CACHED_PLACES_MAX)
		places_free(s);
	if (!tsearch(c, &s->places, place_compare)) {
		free(c);
		return;
	}
	s->place_count++;
	symbols_on_close(s, places_free);
}

void symbols_data_place(struct symbols *s, uint64_t address, struct place *out)
{
	symbols_place(s, address, out);
}
