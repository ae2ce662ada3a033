/* SPDX-License-Identifier: MIT */
/*
 * code_inlined.c - copies of functions that the compiler put into others.
 *
 * Two walks over the debug information: for the functions of that name that were inlined at all,
 * and for the locations where. Most functions never were: the names of those that were are
 * remembered, so that many names are looked up in a moment.
 */
#include "base/grow.h"
#include "report/code/code_sites_priv.h"
#include "report/dwarf/dies.h"
#include "report/dwarf/go.h"
#include "report/path.h"
#include "report/safe/clean.h"

#include <ctype.h>
#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64 /* of blocks within blocks */

struct inlined {
	struct symbols *s;
	Dwfl_Module *mod; /* the only one inspected */
	const struct function_name *wanted;
	struct code_sites *out;
	Dwarf_Addr bias;
	const char *module;
	const void **origins; /* sorted */
	size_t count;
	size_t room;
	int err;
};

/* The name of an object's function, up to its template arguments. */
struct inlined_name {
	const char *text;
	size_t length;
};

struct inlined_names {
	struct inlined_names *next;
	Dwfl_Module *mod;
	struct inlined_name *name; /* sorted */
	size_t count;
	size_t room;
	bool has_others; /* that are not plain names */
};

static bool was_inlined(Dwarf_Die *die)
{
	uint64_t how;

	return dwarf_tag(die) == DW_TAG_subprogram && clean_die_name(die) &&
	       die_number(die, DW_AT_inline, &how) &&
	       (how == DW_INL_inlined || how == DW_INL_declared_inlined);
}

static int name_visit(const struct die_visit *v, Dwarf_Die *die)
{
	struct inlined_names *names = v->arg;

	if (v->mod != names->mod || !was_inlined(die))
		return 0;
	if (grow_room(names->name, names->count, names->room))
		return -ENOMEM;
	const char *text = clean_die_name(die);
	struct inlined_name name = { text, strcspn(text, "<") };
	names->has_others = names->has_others || strcspn(text, "( :") < name.length;
	names->name[names->count++] = name;
	return 0;
}

static int name_compare(const void *a, const void *b)
{
	const struct inlined_name *x = a;
	const struct inlined_name *y = b;
	int differs = strncmp(x->text, y->text, x->length < y->length ? x->length : y->length);

	return differs ? differs : (x->length > y->length) - (x->length < y->length);
}

/* NULL: no memory. */
static void code_inlined_forget(struct symbols *s)
{
	while (s->inlined) {
		struct inlined_names *next = s->inlined->next;

		free(s->inlined->name);
		free(s->inlined);
		s->inlined = next;
	}
}

static const struct inlined_names *names_of(struct symbols *s, Dwfl_Module *mod)
{
	struct inlined_names *names = s->inlined;

	while (names && names->mod != mod)
		names = names->next;
	if (names)
		return names;
	names = calloc(1, sizeof(*names));
	if (!names)
		return NULL;
	names->mod = mod;
	if (dies_walk(s, symbols_module_name(mod), DIES_SHARED, name_visit, names)) {
		free(names->name);
		free(names);
		return NULL;
	}
	if (names->count)
		qsort(names->name, names->count, sizeof(*names->name), name_compare);
	names->next = s->inlined;
	s->inlined = names;
	symbols_on_close(s, code_inlined_forget);
	return names;
}

/* A plain name that no function has that was inlined. Of others this is not known. */
static bool is_never_inlined(struct symbols *s, Dwfl_Module *mod,
			     const struct function_name *wanted)
{
	struct inlined_name key = { wanted->text, strlen(wanted->text) };

	for (const char *p = wanted->text; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '_')
			return false;
	const struct inlined_names *names = names_of(s, mod);
	return names && !names->has_others &&
	       (!names->count ||
		!bsearch(&key, names->name, names->count, sizeof(*names->name), name_compare));
}

static int origin_visit(const struct die_visit *v, Dwarf_Die *die)
{
	struct inlined *w = v->arg;
	char name[512];
	int line;

	if (v->mod != w->mod || !was_inlined(die))
		return 0;
	/*
	 * The walk knows the scopes: to ask for them again would read the unit once for each
	 * function.
	 */
	die_join(die_is_cplusplus(die) ? v->scope : NULL, clean_die_name(die), name, sizeof(name));
	bool fits = die_language(v->cu) == DW_LANG_Go ? go_name_fits(w->wanted, name) :
							function_name_fits(w->wanted, name);
	if (!fits || (w->wanted->source && !path_ends_in(die_file(die, &line), w->wanted->source)))
		return 0;
	if (grow_room(w->origins, w->count, w->room))
		return -ENOMEM;
	w->origins[w->count++] = die->addr;
	return 0;
}

static int pointer_compare(const void *a, const void *b)
{
	const char *const *x = a;
	const char *const *y = b;

	return (*x > *y) - (*x < *y);
}

/* Where a copy begins; 0: it has no code. */
static Dwarf_Addr inlined_entry_of(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	Dwarf_Addr base;
	Dwarf_Addr start = 0;
	Dwarf_Addr end;
	Dwarf_Word offset;

	dwarf_ranges(die, 0, &base, &start, &end);
	if (dwarf_attr(die, DW_AT_entry_pc, &attr)) {
		Dwarf_Addr pc;
		if (!dwarf_formaddr(&attr, &pc))
			return pc;
		if (!dwarf_formudata(&attr, &offset) && start) /* DWARF 5: counted from the start */
			return start + offset;
	}
	return start;
}

static int add_copy(struct inlined *w, Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	Dwarf_Die origin;
	char name[512];

	if (!dwarf_attr(die, DW_AT_abstract_origin, &attr) || !dwarf_formref_die(&attr, &origin) ||
	    !bsearch(&origin.addr, w->origins, w->count, sizeof(*w->origins), pointer_compare))
		return 0;
	Dwarf_Addr pc = inlined_entry_of(die);
	if (!pc)
		return 0;
	/* Small helpers by the thousand would hide what the pattern is for. */
	if (w->wanted->is_pattern && !w->out->all_copies) {
		w->out->copies_left_out++;
		return 0;
	}
	die_qualified(&origin, name, sizeof(name));
	struct code_site site = { .kind = CODE_SITE_INLINED,
				  .address = pc + w->bias,
				  .module = w->module,
				  .is_certain = true,
				  .die = dwarf_dieoffset(die) };
	site.function = code_function_start(w->s, site.address, NULL);
	return code_sites_add(w->out, site, name);
}

static void walk(struct inlined *w, Dwarf_Die *parent, unsigned int depth)
{
	Dwarf_Die die;

	if (depth > DEPTH_MAX || dwarf_child(parent, &die))
		return;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_inlined_subroutine:
			w->err = add_copy(w, &die);
			/* fall through */
		case DW_TAG_subprogram:
		case DW_TAG_lexical_block:
		case DW_TAG_namespace:
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
			walk(w, &die, depth + 1);
			break;
		default:
			break;
		}
	} while (!w->err && !dwarf_siblingof(&die, &die));
}

int code_inlined_find(struct symbols *s, Dwfl_Module *mod, const struct function_name *wanted,
		      struct code_sites *out)
{
	struct inlined w = {
		.s = s, .mod = mod, .wanted = wanted, .out = out, .module = symbols_module_name(mod)
	};
	Dwarf *dwarf = dwfl_module_getdwarf(mod, &w.bias);
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;
	Dwarf_Die split;

	if (!dwarf || is_never_inlined(s, mod, wanted))
		return 0;
	w.err = dies_walk(s, w.module, DIES_SHARED, origin_visit, &w);
	if (w.count)
		qsort(w.origins, w.count, sizeof(*w.origins), pointer_compare);
	while (w.count && !w.err && !dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, &split))
		walk(&w, split.addr ? &split : &unit, 0);
	free(w.origins);
	return w.err;
}
