/* SPDX-License-Identifier: MIT */
/* dies.c - see dies.h. */
#include "report/dwarf/dies.h"
#include "report/dwarf/languages.h"
#include "report/safe/clean.h"

#include "report/safe/busy.h"
#include <dwarf.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 64 /* of namespaces and blocks: damaged DWARF must not take the stack */

struct dies_walk {
	unsigned int flags;
	die_visitor visit;
	struct die_visit v;
	Dwarf *alt; /* the shared file that was walked last: most modules have the same */
	int result;
};

static bool is_entered(Dwarf_Die *die, unsigned int flags)
{
	switch (dwarf_tag(die)) {
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
		return true;
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
		return (flags & DIES_FUNCTIONS) != 0;
	default:
		return false;
	}
}

static void walk_children(struct dies_walk *w, Dwarf_Die *parent, unsigned int depth);

static void walk_into(struct dies_walk *w, Dwarf_Die *die, unsigned int depth)
{
	const struct die_scope *outer = w->v.scope;
	Dwarf_Die *function = w->v.function;
	struct die_scope scope = { outer, clean_die_name(die) };

	/* What one declares in a block has the function for its name. */
	if (dwarf_tag(die) != DW_TAG_lexical_block)
		w->v.scope = &scope;
	if (dwarf_tag(die) == DW_TAG_subprogram)
		w->v.function = die;
	walk_children(w, die, depth + 1);
	w->v.scope = outer;
	w->v.function = function;
}

static void walk_children(struct dies_walk *w, Dwarf_Die *parent, unsigned int depth)
{
	BUSY;
	Dwarf_Die die;

	if (depth > DEPTH_MAX || dwarf_child(parent, &die))
		return;
	do {
		w->result = w->visit(&w->v, &die);
		if (!w->result && is_entered(&die, w->flags))
			walk_into(w, &die, depth);
	} while (!w->result && !dwarf_siblingof(&die, &die));
}

static void walk_units(struct dies_walk *w, Dwarf *dwarf)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;
	Dwarf_Die split;

	while (!w->result && !dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, &split)) {
		/* With -gsplit-dwarf the unit is in a .dwo file. */
		w->v.cu = split.addr ? &split : &unit;
		walk_children(w, w->v.cu, 0);
	}
}

static int dies_walk_module(Dwfl_Module *mod, void *arg)
{
	struct dies_walk *w = arg;
	Dwarf *dwarf = dwfl_module_getdwarf(mod, &w->v.bias);

	if (!dwarf)
		return 0;
	w->v.mod = mod;
	walk_units(w, dwarf);
	Dwarf *alt = w->flags & DIES_SHARED ? dwarf_getalt(dwarf) : NULL;
	if (alt && alt != w->alt && !w->result) {
		w->alt = alt;
		walk_units(w, alt);
	}
	return w->result;
}

int dies_walk(struct symbols *s, const char *module, unsigned int flags, die_visitor visit,
	      void *arg)
{
	BUSY;
	struct dies_walk w = { .flags = flags, .visit = visit, .v = { .s = s, .arg = arg } };

	symbols_each_module(s, module, dies_walk_module, &w);
	return w.result;
}

/* Compilers write C's integer types in their own way; only those in <> become part of a name. */
static const struct {
	const char *theirs;
	const char *ours;
} spellings[] = {
	{ "long long unsigned int", "unsigned long long" },
	{ "long long int", "long long" },
	{ "long unsigned int", "unsigned long" },
	{ "long int", "long" },
	{ "short unsigned int", "unsigned short" },
	{ "short int", "short" },
	{ "unsigned long int", "unsigned long" },
	{ ", ", "," },
	{ " >", ">" },
};

const char *die_plain(const char *name, char *buf, size_t n)
{
	size_t used = 0;

	if (!strchr(name, '<'))
		return name;
	while (*name && used + 24 < n) {
		size_t i = 0;
		while (i < sizeof(spellings) / sizeof(spellings[0]) &&
		       strncmp(name, spellings[i].theirs, strlen(spellings[i].theirs)) != 0)
			i++;
		if (i == sizeof(spellings) / sizeof(spellings[0])) {
			buf[used++] = *name++;
			continue;
		}
		used += (size_t)snprintf(buf + used, n - used, "%s", spellings[i].ours);
		name += strlen(spellings[i].theirs);
	}
	buf[used] = 0;
	return buf;
}

void die_join(const struct die_scope *scope, const char *name, char *buf, size_t n)
{
	const char *parts[DEPTH_MAX + 1];
	char plain[256];
	size_t count = 0;
	size_t used = 0;

	parts[count++] = name;
	for (; scope && count < DEPTH_MAX; scope = scope->outer)
		if (scope->name)
			parts[count++] = scope->name;
	buf[0] = 0;
	while (count-- > 0 && used < n) {
		const char *part = parts[count] ? parts[count] : "";
		int more = snprintf(buf + used, n - used, "%s%s",
				    die_plain(part, plain, sizeof(plain)), count ? "::" : "");
		used += more > 0 ? (size_t)more : 0;
	}
}

/*
 * Names what encloses a die: its parents lie before it, and are followed by a sibling that
 * lies after it. libdw's own way, dwarf_getscopes_die(), reads the whole unit.
 */
static void qualified_walk(Dwarf_Die *parent, Dwarf_Off wanted, const struct die_scope *scope,
			   const char *name, unsigned int depth, char *buf, size_t n)
{
	Dwarf_Die die;
	Dwarf_Die last = { 0 };

	if (depth > DEPTH_MAX || dwarf_child(parent, &die))
		goto done;
	do {
		if (dwarf_dieoffset(&die) > wanted)
			break;
		last = die;
	} while (!dwarf_siblingof(&die, &die));
	if (last.addr && dwarf_dieoffset(&last) != wanted) {
		struct die_scope inner = { scope, clean_die_name(&last) };
		bool is_block = dwarf_tag(&last) == DW_TAG_lexical_block;
		qualified_walk(&last, wanted, is_block ? scope : &inner, name, depth + 1, buf, n);
		return;
	}
done:
	die_join(scope, name, buf, n);
}

void die_qualified(Dwarf_Die *die, char *buf, size_t n)
{
	Dwarf_Die cu;
	const char *name = clean_die_name(die);

	if (!name || !die_is_cplusplus(die) || !dwarf_diecu(die, &cu, NULL, NULL))
		snprintf(buf, n, "%s", name ? name : "");
	else
		qualified_walk(&cu, dwarf_dieoffset(die), NULL, name, 0, buf, n);
}

const char *die_last_part(const char *name)
{
	const char *last = name;
	int angles = 0;

	for (const char *p = name; *p; p++) {
		angles += (*p == '<') - (*p == '>');
		if (angles <= 0 && p[0] == ':' && p[1] == ':')
			last = p + 2;
	}
	return last;
}

static bool is_code_scope(Dwarf_Die *die)
{
	switch (dwarf_tag(die)) {
	case DW_TAG_subprogram:
	case DW_TAG_inlined_subroutine:
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
	case DW_TAG_with_stmt:
		return true;
	default:
		return false;
	}
}

/* A part of it has the address, and no instruction: the compiler has moved those away. */
static bool begins_empty(Dwarf_Die *block, Dwarf_Addr address)
{
	Dwarf_Addr base;
	Dwarf_Addr start;
	Dwarf_Addr end;

	for (ptrdiff_t at = 0; (at = dwarf_ranges(block, at, &base, &start, &end)) > 0;)
		if (start == address && end == address)
			return true;
	return false;
}

/*
 * An empty part is of a line that ends where it begins: a breakpoint on that line is here. What the
 * block declares is then not to be had, and must not be taken for what has the same name around it.
 */
static bool child_at(Dwarf_Die *parent, Dwarf_Addr address, Dwarf_Die *out)
{
	bool is_found = false;
	Dwarf_Die die;

	if (dwarf_child(parent, &die))
		return false;
	do {
		if (!is_code_scope(&die))
			continue;
		if (dwarf_haspc(&die, address) > 0) {
			*out = die;
			return true;
		}
		if (!is_found && dwarf_tag(&die) == DW_TAG_lexical_block &&
		    begins_empty(&die, address)) {
			*out = die;
			is_found = true;
		}
	} while (!dwarf_siblingof(&die, &die));
	return is_found;
}

/*
 * Functions are in it that debug information does not repeat outside. Those of Rust are in
 * enumerations, too.
 */
static bool holds_functions(Dwarf_Die *die, bool is_nested)
{
	const int tag = dwarf_tag(die);

	return tag == DW_TAG_enumeration_type || tag == DW_TAG_interface_type ||
	       is_entered(die, is_nested ? DIES_FUNCTIONS : 0);
}

/*
 * In namespaces and types, as Rust has all of its functions; is_nested: in other functions, as Ada
 * has.
 */
static bool deep_child_at(Dwarf_Die *parent, Dwarf_Addr address, bool is_nested, unsigned int depth,
			  Dwarf_Die *out)
{
	Dwarf_Die die;

	if (depth > DEPTH_MAX || dwarf_child(parent, &die))
		return false;
	do {
		if (depth && is_code_scope(&die) && dwarf_haspc(&die, address) > 0) {
			*out = die;
			return true;
		}
		if (holds_functions(&die, is_nested) &&
		    deep_child_at(&die, address, is_nested, depth + 1, out))
			return true;
	} while (!dwarf_siblingof(&die, &die));
	return false;
}

static bool outermost_at(Dwarf_Die *cu, Dwarf_Addr address, Dwarf_Die *out)
{
	return child_at(cu, address, out) || deep_child_at(cu, address, false, 0, out) ||
	       deep_child_at(cu, address, true, 0, out);
}

int die_scopes(Dwarf_Die *cu, Dwarf_Addr address, Dwarf_Die *scopes)
{
	int count = 0;

	while (count < DIE_SCOPES_MAX &&
	       (count ? child_at(&scopes[count - 1], address, &scopes[count]) :
			outermost_at(cu, address, &scopes[0])))
		count++;
	return count;
}

bool die_innermost_function(const Dwarf_Die *scopes, int count, Dwarf_Die *out)
{
	while (count-- > 0) {
		Dwarf_Die die = scopes[count];
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine) {
			*out = die;
			return true;
		}
	}
	return false;
}

bool die_function_at(Dwarf_Die *cu, Dwarf_Addr address, Dwarf_Die *out)
{
	Dwarf_Die scopes[DIE_SCOPES_MAX];

	return die_innermost_function(scopes, die_scopes(cu, address, scopes), out);
}

bool dies_present(struct symbols *s, const char *module)
{
	Dwfl_Module *mod = symbols_first_module(s, module);
	Dwarf_Addr bias;

	return mod && dwfl_module_getdwarf(mod, &bias);
}

bool die_number(Dwarf_Die *die, unsigned int attribute, uint64_t *out)
{
	Dwarf_Attribute attr;
	Dwarf_Word value;

	if (!dwarf_attr_integrate(die, attribute, &attr) || dwarf_formudata(&attr, &value))
		return false;
	*out = value;
	return true;
}

bool die_flag(Dwarf_Die *die, unsigned int attribute)
{
	Dwarf_Attribute attr;
	bool flag = false;

	return dwarf_attr_integrate(die, attribute, &attr) && !dwarf_formflag(&attr, &flag) && flag;
}

const char *die_file_by_number(Dwarf_Die *die, uint64_t number)
{
	Dwarf_Files *files;
	Dwarf_Die cu;
	size_t n;

	/*
	 * dwarf_decl_file() would abort where a unit has no table of files, as split ones have
	 * none.
	 */
	if (!dwarf_diecu(die, &cu, NULL, NULL) || dwarf_getsrcfiles(&cu, &files, &n) || number >= n)
		return NULL;
	return clean_file(files, number);
}

const char *die_file(Dwarf_Die *die, int *line)
{
	Dwarf_Attribute attr;
	Dwarf_Die origin = *die;
	uint64_t number;

	/* A definition that completes a declaration has no location of its own at times. */
	if (!dwarf_hasattr(die, DW_AT_decl_line) &&
	    (dwarf_attr(die, DW_AT_specification, &attr) ||
	     dwarf_attr(die, DW_AT_abstract_origin, &attr)) &&
	    !dwarf_formref_die(&attr, &origin))
		origin = *die;
	*line = 0;
	dwarf_decl_line(&origin, line);
	return die_number(&origin, DW_AT_decl_file, &number) ? die_file_by_number(&origin, number) :
							       NULL;
}

bool die_is_cplusplus(Dwarf_Die *die)
{
	Dwarf_Die cu;

	if (!dwarf_diecu(die, &cu, NULL, NULL))
		return false;
	int language = dwarf_srclang(&cu);
	return !language_is_c(language) && language != DW_LANG_Go;
}

int die_language(Dwarf_Die *die)
{
	Dwarf_Die cu;

	return dwarf_diecu(die, &cu, NULL, NULL) ? dwarf_srclang(&cu) : -1;
}

Dwarf_Addr die_first_number(Dwarf_Attribute *attr, const Dwarf_Op *ops, bool *is_address)
{
	Dwarf_Attribute entry;
	Dwarf_Addr address = 0;
	Dwarf_Word word;

	*is_address = ops[0].atom == DW_OP_addr;
	switch (ops[0].atom) {
	case DW_OP_addrx:
	case DW_OP_GNU_addr_index:
		*is_address = !dwarf_getlocation_attr(attr, ops, &entry) &&
			      !dwarf_formaddr(&entry, &address);
		return address;
	case DW_OP_constx:
	case DW_OP_GNU_const_index:
		if (!dwarf_getlocation_attr(attr, ops, &entry) && !dwarf_formudata(&entry, &word))
			return word;
		return 0;
	default:
		return ops[0].number;
	}
}
