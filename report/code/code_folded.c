/* SPDX-License-Identifier: MIT */
/* code_folded.c - see code_folded.h. */
#include "report/code/code_folded.h"

#include "report/dwarf/dies.h"
#include "report/dwarf/symbols_priv.h"
#include "report/safe/clean.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A name of the code of a site. */
struct folded_name {
	struct code_site *site;
	char *symbol;
	char *readable;
	bool is_own; /* it is the name of the site */
	bool is_weak;
	bool is_defined; /* in the debug information */
};

struct folded {
	struct symbols *s;
	struct code_sites *sites;
	struct code_site **functions;
	size_t function_count;
	struct folded_name *names; /* those of one site follow each other, after a sort */
	size_t count;
	size_t room;
};

static int by_function(const void *a, const void *b)
{
	const struct code_site *const *x = a;
	const struct code_site *const *y = b;

	return ((*x)->function > (*y)->function) - ((*x)->function < (*y)->function);
}

/* The functions among the sites, by their begin. */
static int list_functions(struct folded *f)
{
	f->functions = calloc(f->sites->count, sizeof(*f->functions));
	if (!f->functions)
		return -ENOMEM;
	for (size_t i = 0; i < f->sites->count; i++)
		if (f->sites->site[i].kind == CODE_SITE_FUNCTION)
			f->functions[f->function_count++] = &f->sites->site[i];
	if (f->function_count)
		qsort(f->functions, f->function_count, sizeof(*f->functions), by_function);
	return 0;
}

static struct code_site *site_of(const struct folded *f, uint64_t function)
{
	const struct code_site wanted = { .function = function };
	const struct code_site *key = &wanted;
	struct code_site **found = f->function_count ?
					   bsearch(&key, f->functions, f->function_count,
						   sizeof(*f->functions), by_function) :
					   NULL;

	return found ? *found : NULL;
}

static int add_name(struct folded *f, struct code_site *site, const char *symbol, bool is_weak)
{
	if (f->count == f->room) {
		size_t room = f->room ? 2 * f->room : 64;
		struct folded_name *names = realloc(f->names, room * sizeof(*names));

		if (!names)
			return -ENOMEM;
		f->names = names;
		f->room = room;
	}
	const size_t length = strcspn(symbol, "@");
	struct folded_name name = { .site = site,
				    .symbol = strndup(symbol, length),
				    .readable = symbols_demangle(symbol),
				    .is_weak = is_weak };
	if (name.symbol && !name.readable)
		name.readable = strdup(name.symbol);
	if (!name.symbol || !name.readable) {
		free(name.symbol);
		return -ENOMEM;
	}
	name.is_own = !strcmp(name.readable, site->name) || !strcmp(name.symbol, site->name);
	f->names[f->count++] = name;
	return 0;
}

static int folded_visit(Dwfl_Module *mod, const char *symbol, const GElf_Sym *sym, uint64_t address,
			void *arg)
{
	struct folded *f = arg;
	struct code_site *site;

	if (GELF_ST_TYPE(sym->st_info) != STT_FUNC || !symbol[0])
		return 0;
	site = site_of(f, address);
	return site ? add_name(f, site, symbol, GELF_ST_BIND(sym->st_info) == STB_WEAK) : 0;
}

static int by_site(const void *a, const void *b)
{
	const struct folded_name *x = a;
	const struct folded_name *y = b;

	if (x->site != y->site)
		return x->site < y->site ? -1 : 1;
	if (x->is_own != y->is_own)
		return y->is_own - x->is_own;
	return strcmp(x->readable, y->readable);
}

static int note_definition(const struct die_visit *v, Dwarf_Die *die)
{
	struct folded *f = v->arg;
	Dwarf_Attribute attr;

	if (dwarf_tag(die) != DW_TAG_subprogram || die_flag(die, DW_AT_declaration))
		return 0;
	bool is_mangled = dwarf_attr_integrate(die, DW_AT_linkage_name, &attr) != NULL;
	const char *name = is_mangled ? clean_attribute(&attr) : clean_die_name(die);
	for (size_t i = 0; name && i < f->count; i++)
		f->names[i].is_defined |= !strcmp(f->names[i].symbol, name);
	return 0;
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
	size_t x = core_of(&a);
	size_t y = core_of(&b);

	return x == y && !memcmp(a, b, x);
}

static bool is_of_c(const struct folded_name *name)
{
	return strncmp(name->symbol, "_Z", 2) != 0 && strncmp(name->symbol, "_R", 2) != 0;
}

static bool is_other(const struct folded_name *own, const struct folded_name *name)
{
	if (!strcmp(own->readable, name->readable))
		return false;
	if (own->is_defined || name->is_defined)
		return own->is_defined && name->is_defined;
	return !((own->is_weak || name->is_weak) && is_of_c(own) && is_of_c(name)) &&
	       !are_alike(own->symbol, name->symbol);
}

/* The names of one site, the own ones first. */
static int label(struct folded_name *names, size_t count)
{
	struct code_site *site = names[0].site;
	char text[CODE_FOLDED_BYTES];
	size_t used = (size_t)snprintf(text, sizeof(text), "%s", site->name);
	size_t others = 0;

	for (size_t i = 0; i < count && used < sizeof(text); i++) {
		bool is_again = i && !strcmp(names[i].readable, names[i - 1].readable);

		if (names[i].is_own || is_again || !is_other(&names[0], &names[i]))
			continue;
		used += (size_t)snprintf(text + used, sizeof(text) - used, CODE_FOLDED_AND "%s",
					 names[i].readable);
		others++;
	}
	if (!others || used >= sizeof(text) - sizeof(CODE_FOLDED_SAME))
		return 0;
	strcpy(text + used, CODE_FOLDED_SAME);
	char *whole = strdup(text);
	if (!whole)
		return -ENOMEM;
	free(site->name);
	site->name = whole;
	return 0;
}

static int label_all(struct folded *f)
{
	size_t from = 0;
	int err = 0;

	for (size_t i = 1; !err && i <= f->count; i++) {
		if (i < f->count && f->names[i].site == f->names[from].site)
			continue;
		if (i - from > 1 && f->names[from].is_own)
			err = label(f->names + from, i - from);
		from = i;
	}
	return err;
}

/* Only where there is a question: debug information is read whole for it. */
static void find_definitions(struct folded *f)
{
	const char *done = NULL;

	for (size_t i = 1; i < f->count; i++) {
		const struct folded_name *n = &f->names[i];

		if (n->site != n[-1].site || !n->site->module || n->site->module == done ||
		    !strcmp(n->readable, n[-1].readable))
			continue;
		done = n->site->module;
		dies_walk(f->s, done, 0, note_definition, f);
	}
}

int code_folded_label(struct symbols *s, struct code_sites *sites)
{
	struct folded f = { .s = s, .sites = sites };
	int err = sites->count ? list_functions(&f) : 0;

	if (!err && f.function_count)
		err = symbols_walk(s, NULL, folded_visit, &f);
	if (f.count)
		qsort(f.names, f.count, sizeof(*f.names), by_site);
	if (!err) {
		find_definitions(&f);
		err = label_all(&f);
	}
	for (size_t i = 0; i < f.count; i++) {
		free(f.names[i].symbol);
		free(f.names[i].readable);
	}
	free(f.names);
	free(f.functions);
	return err;
}

bool code_folded_is(const char *name)
{
	size_t n = strlen(name);
	size_t end = strlen(CODE_FOLDED_SAME);

	return n > end && !strcmp(name + n - end, CODE_FOLDED_SAME) &&
	       strstr(name, CODE_FOLDED_AND);
}
