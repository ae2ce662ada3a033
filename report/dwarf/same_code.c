/* SPDX-License-Identifier: MIT */
/* same_code.c - see same_code.h. */
#include "report/dwarf/same_code.h"

#include "report/dwarf/dies.h"
#include "report/dwarf/sections.h"
#include "report/safe/busy.h"
#include "report/safe/clean.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

struct same_name {
	uint64_t address;
	const char *symbol;
	const char *readable;
	bool is_weak;
	bool is_defined; /* in the debug information */
};

/* The names of an object that share their address with another. */
struct same_names {
	struct same_names *next;
	Dwfl_Module *mod;
	struct same_name *names; /* by address */
	struct same_name **by_symbol;
	size_t count;
	bool is_looked_up; /* is_defined is known */
};

struct plain_symbol {
	uint64_t address;
	int index;
};

static int by_address(const void *a, const void *b)
{
	const struct plain_symbol *x = a;
	const struct plain_symbol *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

static int by_symbol(const void *a, const void *b)
{
	const struct same_name *const *x = a;
	const struct same_name *const *y = b;

	return strcmp((*x)->symbol, (*y)->symbol);
}

/* The functions of an object, sorted. NULL: none, or no memory. */
static struct plain_symbol *list_all(Dwfl_Module *mod, size_t *n)
{
	int count = dwfl_module_getsymtab(mod);
	struct plain_symbol *list = count > 1 ? calloc((size_t)count, sizeof(*list)) : NULL;

	*n = 0;
	for (int i = 1; list && i < count; i++) {
		GElf_Sym sym;
		GElf_Addr address;
		GElf_Word section;
		const char *name = clean_symbol(mod, i, &sym, &address, &section);

		if (name && *name && section != SHN_UNDEF && GELF_ST_TYPE(sym.st_info) == STT_FUNC)
			list[(*n)++] = (struct plain_symbol){ address, i };
	}
	if (*n)
		qsort(list, *n, sizeof(*list), by_address);
	return list;
}

static void add_name(struct same_names *t, const struct plain_symbol *from)
{
	GElf_Sym sym;
	GElf_Addr address;
	GElf_Word section;
	const char *symbol = clean_symbol(t->mod, from->index, &sym, &address, &section);
	char *plain = strndup(symbol, strcspn(symbol, "@"));
	char *readable = plain ? symbols_demangle(plain) : NULL;

	if (plain)
		t->names[t->count++] = (struct same_name){
			.address = from->address,
			.symbol = clean_keep(plain),
			.readable = clean_keep(readable ? readable : plain),
			.is_weak = GELF_ST_BIND(sym.st_info) == STB_WEAK,
		};
	free(plain);
	free(readable);
}

static void take_shared(struct same_names *t)
{
	size_t n;
	struct plain_symbol *all = list_all(t->mod, &n);
	size_t shared = 0;

	for (size_t i = 0; i < n; i++)
		shared += (i && all[i - 1].address == all[i].address) ||
			  (i + 1 < n && all[i + 1].address == all[i].address);
	t->names = shared ? calloc(shared, sizeof(*t->names)) : NULL;
	for (size_t i = 0; t->names && i < n; i++)
		if ((i && all[i - 1].address == all[i].address) ||
		    (i + 1 < n && all[i + 1].address == all[i].address))
			add_name(t, &all[i]);
	free(all);
	t->by_symbol = t->count ? calloc(t->count, sizeof(struct same_name *)) : NULL;
	for (size_t i = 0; t->by_symbol && i < t->count; i++)
		t->by_symbol[i] = &t->names[i];
	if (t->by_symbol)
		qsort(t->by_symbol, t->count, sizeof(struct same_name *), by_symbol);
}

static void same_code_forget(struct symbols *s)
{
	while (s->same_names) {
		struct same_names *t = s->same_names;

		s->same_names = t->next;
		free(t->names);
		free(t->by_symbol);
		free(t);
	}
}

static struct same_names *names_of(struct symbols *s, Dwfl_Module *mod)
{
	struct same_names *t = s->same_names;

	while (t && t->mod != mod)
		t = t->next;
	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->mod = mod;
	take_shared(t);
	t->next = s->same_names;
	s->same_names = t;
	symbols_on_close(s, same_code_forget);
	return t;
}

static int note_definition(const struct die_visit *v, Dwarf_Die *die)
{
	struct same_names *t = v->arg;
	Dwarf_Attribute attr;

	if (dwarf_tag(die) != DW_TAG_subprogram || die_flag(die, DW_AT_declaration))
		return 0;
	bool is_mangled = dwarf_attr_integrate(die, DW_AT_linkage_name, &attr) != NULL;
	struct same_name wanted = { .symbol = is_mangled ? clean_attribute(&attr) :
							   clean_die_name(die) };
	struct same_name *key = &wanted;
	struct same_name **found = wanted.symbol ? bsearch(&key, t->by_symbol, t->count,
							   sizeof(struct same_name *), by_symbol) :
						   NULL;
	if (!found)
		return 0;
	while (found > t->by_symbol && !strcmp(found[-1]->symbol, wanted.symbol))
		found--;
	for (; found < t->by_symbol + t->count && !strcmp((*found)->symbol, wanted.symbol); found++)
		(*found)->is_defined = true;
	return 0;
}

static uint64_t debug_bytes(Dwfl_Module *mod)
{
	GElf_Addr bias;
	Dwarf *dwarf = dwfl_module_getdwarf(mod, &bias);
	Elf *elf = dwarf ? dwarf_getelf(dwarf) : NULL;
	Elf_Scn *section = NULL;
	uint64_t bytes = 0;
	const char *name;
	GElf_Shdr header;

	while ((name = section_next(elf, &section, &header)))
		if (strstr(name, "debug_info"))
			bytes += header.sh_size;
	return bytes;
}

/* Without underscores before and a 64 behind it, and what libc puts before a name. */
static size_t core_of(const char **name)
{
	static const char *const before[] = { "IO_", "GI_", "libc_", "new_", "old_" };
	const char *at = *name + strspn(*name, "_");

	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		if (strncmp(at, before[i], strlen(before[i])) != 0)
			continue;
		at += strlen(before[i]);
		at += strspn(at, "_");
	}
	size_t n = strlen(at);
	*name = at;
	/* An older version of the symbol, as __clock_nanosleep_2. */
	size_t digits = n;
	while (digits && at[digits - 1] >= '0' && at[digits - 1] <= '9')
		digits--;
	if (digits > 1 && digits < n && at[digits - 1] == '_')
		return digits - 1;
	return n > 2 && !strcmp(at + n - 2, "64") ? n - 2 : n;
}

static bool are_alike(const char *a, const char *b)
{
	size_t plain = strcspn(a, ".");

	/* A compiler's own name for a function, as count.localalias. */
	if (plain && plain == strcspn(b, ".") && !strncmp(a, b, plain))
		return true;
	size_t x = core_of(&a);
	size_t y = core_of(&b);
	return x == y && !memcmp(a, b, x);
}

static bool is_of_c(const struct same_name *name)
{
	return strncmp(name->symbol, "_Z", 2) != 0 && strncmp(name->symbol, "_R", 2) != 0 &&
	       !demangle_is_d(name->symbol);
}

/* No matter what the debug information states. */
static bool may_be_other(const struct same_name *own, const struct same_name *name)
{
	return strcmp(own->readable, name->readable) != 0;
}

static bool is_other(const struct same_name *own, const struct same_name *name)
{
	if (own->is_defined || name->is_defined)
		return own->is_defined && name->is_defined;
	return !((own->is_weak || name->is_weak) && is_of_c(own) && is_of_c(name)) &&
	       !are_alike(own->symbol, name->symbol);
}

static int by_readable(const void *a, const void *b)
{
	const struct same_name *const *x = a;
	const struct same_name *const *y = b;

	return strcmp((*x)->readable, (*y)->readable);
}

static const char *join(struct same_name **others, size_t n)
{
	char text[SAME_CODE_BYTES] = "";
	size_t used = 0;

	if (n)
		qsort(others, n, sizeof(struct same_name *), by_readable);
	for (size_t i = 0; i < n; i++) {
		if (i && !may_be_other(others[i - 1], others[i]))
			continue;
		size_t room = sizeof(text) - used;
		size_t length = (size_t)snprintf(text + used, room, "%s%s",
						 used ? SAME_CODE_AND : "", others[i]->readable);
		if (length >= room) {
			text[used] = '\0';
			break;
		}
		used += length;
	}
	return used ? clean_keep(text) : NULL;
}

static const char *others_of(struct same_names *t, const struct same_name *first, size_t n,
			     const char *own_name)
{
	const struct same_name *own = NULL;
	struct same_name *others[64];
	size_t count = 0;

	for (size_t i = 0; i < n && !own; i++)
		if (!strcmp(first[i].readable, own_name) || !strcmp(first[i].symbol, own_name))
			own = &first[i];
	for (size_t i = 0; own && i < n && count < sizeof(others) / sizeof(others[0]); i++)
		if (may_be_other(own, &first[i]) && is_other(own, &first[i]))
			others[count++] = &t->names[first + i - t->names];
	return join(others, count);
}

const char *same_code_names(struct symbols *s, Dwfl_Module *mod, uint64_t function, const char *own,
			    uint64_t most)
{
	BUSY;
	struct same_names *t = mod ? names_of(s, mod) : NULL;
	size_t from = 0;
	size_t to;
	bool is_asked = false;

	/* The names are by address. */
	for (size_t left = t ? t->count : 0; left;) {
		size_t half = left / 2;
		bool is_before = t->names[from + half].address < function;

		from += is_before ? half + 1 : 0;
		left = is_before ? left - half - 1 : half;
	}
	for (to = from; t && to < t->count && t->names[to].address == function; to++)
		is_asked |= to > from && may_be_other(&t->names[from], &t->names[to]);
	if (!is_asked)
		return NULL;
	if (!t->is_looked_up && t->by_symbol && debug_bytes(mod) <= most) {
		t->is_looked_up = true;
		dies_walk(s, symbols_module_name(mod), 0, note_definition, t);
	}
	return others_of(t, t->names + from, to - from, own);
}
