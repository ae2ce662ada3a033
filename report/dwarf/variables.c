/* SPDX-License-Identifier: MIT */
/*
 * variables.c - see variables.h.
 *
 * A look-up walks the debug information at file level first, and the insides of functions only if
 * nothing matches. A variable that is only declared there, since a library without debug
 * information defines it, has its type from the declaration and its address from the symbol table.
 */
#include "report/dwarf/variables.h"
#include "report/safe/clean.h"

#include "report/dwarf/dies.h"
#include "report/dwarf/dynamic.h"
#include "report/dwarf/near.h"
#include "report/dwarf/types_priv.h"
#include "report/path.h"

#include <dwarf.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANDIDATES_MAX 8
#define COPIES_SHOWN 4 /* of a file that is loaded several times */

static bool is_variable(Dwarf_Die *die)
{
	int tag = dwarf_tag(die);

	return tag == DW_TAG_variable || (tag == DW_TAG_member && die_flag(die, DW_AT_external));
}

/* A definition outside of its class or namespace: the declaration knows what it is in. */
static bool specification_of(Dwarf_Die *die, Dwarf_Die *out)
{
	Dwarf_Attribute attr;

	return (dwarf_attr(die, DW_AT_specification, &attr) ||
		dwarf_attr(die, DW_AT_abstract_origin, &attr)) &&
	       dwarf_formref_die(&attr, out);
}

static void qualified_name(const struct die_visit *v, Dwarf_Die *die, char *buf, size_t n)
{
	Dwarf_Die declaration;

	if (specification_of(die, &declaration))
		die_qualified(&declaration, buf, n);
	else
		die_join(v->scope, clean_die_name(die), buf, n);
}

static enum variable_where where_without_location(Dwarf_Die *die, struct named_variable *out)
{
	Dwarf_Attribute attr;
	Dwarf_Sword value;

	if (!dwarf_attr_integrate(die, DW_AT_const_value, &attr))
		return VARIABLE_GONE;
	if (!dwarf_formsdata(&attr, &value))
		out->constant = value;
	return VARIABLE_CONSTANT;
}

/*
 * The offset in the block of thread-local variables. With -gsplit-dwarf GCC 12 leaves an address in
 * the file instead, which lies behind every offset there can be.
 */
static Dwarf_Addr thread_offset(Dwfl_Module *mod, Dwarf_Addr at)
{
	GElf_Addr bias;
	GElf_Phdr ph;
	size_t count;
	Elf *elf = dwfl_module_getelf(mod, &bias);

	if (!elf || elf_getphdrnum(elf, &count))
		return at;
	for (size_t i = 0; i < count; i++)
		if (gelf_getphdr(elf, (int)i, &ph) && ph.p_type == PT_TLS && at >= ph.p_memsz &&
		    at - ph.p_vaddr < ph.p_memsz)
			return at - ph.p_vaddr;
	return at;
}

/* Go writes an address in a form that DWARF 4 has for other things, which libdw does not read. */
static bool block_address(Dwarf_Attribute *attr, Dwarf_Addr bias, uint64_t *out)
{
	Dwarf_Block block;
	uint64_t address;

	if (dwarf_whatform(attr) != DW_FORM_block1 || dwarf_formblock(attr, &block) ||
	    block.length != 1 + sizeof(address) || block.data[0] != DW_OP_addr)
		return false;
	memcpy(&address, block.data + 1, sizeof(address));
	*out = address + bias;
	return true;
}

/* Where the location expression leads, as far as no thread has to run for it. */
static enum variable_where where_is(const struct die_visit *v, Dwarf_Die *die,
				    struct named_variable *out)
{
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	size_t n;

	if (!dwarf_attr(die, DW_AT_location, &attr))
		return where_without_location(die, out);
	if (dwarf_getlocation(&attr, &ops, &n))
		return block_address(&attr, v->bias, &out->address) ?
			       VARIABLE_STATIC :
			       VARIABLE_LOCAL; /* a list by code address: it moves */
	if (!n)
		return VARIABLE_GONE;
	bool is_address;
	Dwarf_Addr at = die_first_number(&attr, ops, &is_address);
	if (is_address && n == 2 && ops[1].atom == DW_OP_plus_uconst)
		at += ops[1].number;
	if (is_address && (n == 1 || (n == 2 && ops[1].atom == DW_OP_plus_uconst))) {
		out->address = at + v->bias;
		return VARIABLE_STATIC;
	}
	if (n == 2 &&
	    (ops[1].atom == DW_OP_GNU_push_tls_address || ops[1].atom == DW_OP_form_tls_address)) {
		out->address = thread_offset(v->mod, at);
		return VARIABLE_THREAD;
	}
	return ops[0].atom == DW_OP_stack_value || ops[n - 1].atom == DW_OP_stack_value ?
		       VARIABLE_GONE :
		       VARIABLE_LOCAL;
}

static void variable_fill(const struct die_visit *v, Dwarf_Die *die, struct named_variable *out)
{
	memset(out, 0, sizeof(*out));
	qualified_name(v, die, out->name, sizeof(out->name));
	out->where = where_is(v, die, out);
	out->type = type_of_attribute(v->s, die);
	out->size = out->type->size;
	out->module = symbols_module_name(v->mod);
	dwfl_module_getelf(v->mod, &out->object);
	out->file = die_file(die, &out->line);
	out->is_global = die_flag(die, DW_AT_external);
}

/* Is `path` the file that was meant by conn.c or net/conn.c? */
static bool is_in_file(const struct die_visit *v, Dwarf_Die *die, const char *file)
{
	int line;

	return path_ends_in(clean_die_name(v->cu), file) ||
	       path_ends_in(die_file(die, &line), file);
}

/* `a::b` fits `a::b`, and `x::a::b` less well. 0: not at all. */
static int name_fit(const char *name, const char *wanted)
{
	size_t n = strlen(name);
	size_t len = strlen(wanted);

	if (n < len || strcmp(name + n - len, wanted) != 0)
		return 0;
	if (n == len)
		return 2;
	return n >= len + 2 && name[n - len - 1] == ':' ? 1 : 0;
}

struct find {
	const char *file; /* NULL: any */
	const char *name;
	const char *last; /* of name, behind its last "::" */
	int fit;	  /* of the candidates */
	bool in_functions;
	const void *mod; /* the object that has the candidates */
	struct named_variable found[CANDIDATES_MAX];
	size_t count;
	size_t total;
};

/* A variable that can be watched is preferred, then the better match, then a global one. */
static int rank(const struct named_variable *v, int fit)
{
	bool can = v->where == VARIABLE_STATIC || v->where == VARIABLE_THREAD;

	return can * 16 + fit * 4 + (v->where == VARIABLE_CONSTANT) * 2 + v->is_global;
}

static bool is_same(const struct named_variable *a, const struct named_variable *b)
{
	if (a->where != b->where || strcmp(a->name, b->name) != 0)
		return false;
	if (a->where == VARIABLE_STATIC || a->where == VARIABLE_THREAD)
		return a->address == b->address && a->module == b->module;
	return true; /* one of several declarations, or of several inlined copies */
}

static bool is_found(const struct find *f)
{
	return f->count && f->found[0].where <= VARIABLE_CONSTANT;
}

static void find_keep(struct find *f, const struct named_variable *v, int fit)
{
	int best = f->count ? rank(&f->found[0], f->fit) : 0;
	int now = rank(v, fit);

	if (now < best)
		return;
	if (now > best)
		f->count = f->total = 0;
	for (size_t i = 0; i < f->count; i++)
		if (is_same(&f->found[i], v))
			return;
	f->fit = fit;
	f->total++;
	if (f->count < CANDIDATES_MAX)
		f->found[f->count++] = *v;
}

static int find_visit(const struct die_visit *v, Dwarf_Die *die)
{
	struct find *f = v->arg;
	struct named_variable variable;
	bool is_function = dwarf_tag(die) == DW_TAG_subprogram;

	/* The program's own wins over those of its libraries. */
	if (f->mod && f->mod != v->mod && f->fit == 2 && is_found(f))
		return 1;
	if (!is_function && !is_variable(die) &&
	    !(f->in_functions && dwarf_tag(die) == DW_TAG_formal_parameter))
		return 0;
	const char *last = clean_die_name(die);
	if (!last || strcmp(last, f->last) != 0)
		return 0;
	if (is_function && !dwarf_hasattr(die, DW_AT_low_pc))
		return 0;
	variable_fill(v, die, &variable);
	if (is_function) {
		Dwarf_Addr start = 0;
		dwarf_lowpc(die, &start);
		variable.where = VARIABLE_FUNCTION;
		variable.address = start + v->bias;
	}
	int fit = name_fit(variable.name, f->name);
	if (!fit || (f->file && !is_in_file(v, die, f->file)))
		return 0;
	if (f->mod != v->mod && is_found(f) && fit <= f->fit)
		return 0;
	f->mod = v->mod;
	find_keep(f, &variable, fit);
	return 0;
}

static void find_run(struct symbols *s, const char *module, struct find *f)
{
	dies_walk(s, module, 0, find_visit, f);
	if (is_found(f))
		return;
	f->in_functions = true;
	dies_walk(s, module, DIES_FUNCTIONS, find_visit, f);
}

/* By the symbol tables; declared, if not NULL, knows its type. */
static int find_symbol(struct symbols *s, const char *scope, const char *name,
		       const struct named_variable *declared, struct named_variable *out)
{
	char full[VARIABLE_NAME_BYTES];
	struct variable v;

	snprintf(full, sizeof(full), "%s%s%s", scope ? scope : "", scope ? ":" : "", name);
	int err = symbols_find(s, full, &v);
	if (err && err != -ENOTUNIQ && err != -EDOM)
		return err;
	struct named_variable found = { .address = v.address,
					.size = v.size,
					.module = v.module,
					.object = v.object,
					.is_global = true };
	snprintf(found.name, sizeof(found.name), "%s", name);
	found.where = v.is_function ? VARIABLE_FUNCTION :
		      err == -EDOM  ? VARIABLE_THREAD :
				      VARIABLE_STATIC;
	if (declared && !v.is_function && declared->type->kind != TYPE_FUNCTION &&
	    (!v.size || declared->type->size == v.size)) {
		found.type = declared->type;
		found.size = declared->type->size ? declared->type->size : v.size;
	}
	*out = found;
	return err == -EDOM ? 0 : err;
}

static int problem_several(const struct find *f, const char *name,
			   struct variables_problem *problem)
{
	char *buf = problem->text;
	size_t n = sizeof(problem->text);
	size_t used = (size_t)snprintf(buf, n, "%zu variables are named '%s': give one of ",
				       f->total, name);

	for (size_t i = 0; i < f->count && used < n; i++) {
		const struct named_variable *v = &f->found[i];
		const char *file = v->file ? basename(v->file) : v->module;
		used += (size_t)snprintf(buf + used, n - used, "%s%s:%s", i ? ", " : "", file,
					 v->name);
	}
	if (used < n && f->total > f->count)
		snprintf(buf + used, n - used, " ...");
	return -ENOTUNIQ;
}

/* Is scope an object of the target, and not a source file? */
static int module_visit(Dwfl_Module *mod, void *arg)
{
	return 1;
}

/* What the dynamic linker made of it. The type is that of the definition. */
static void move_to_what_runs(struct symbols *s, struct named_variable *v)
{
	uint64_t address = v->where == VARIABLE_STATIC && v->is_global ?
				   dynamic_address(s, v->address, v->name) :
				   v->address;
	Dwfl_Module *mod = address != v->address ? symbols_module_of(s, address) : NULL;

	v->address = address;
	if (mod)
		v->module = symbols_module_name(mod);
}

/* The same file may be loaded several times, by dlmopen(), and each copy has its variables. */
static int problem_copies(struct symbols *s, struct named_variable *v,
			  struct variables_problem *problem)
{
	uint64_t at[COPIES_SHOWN];
	char *buf = problem->text;
	size_t n = sizeof(problem->text);
	size_t count =
		v->where == VARIABLE_STATIC ? dynamic_copies(s, v->address, at, COPIES_SHOWN) : 1;

	if (count < 2)
		return 0;
	size_t used = (size_t)snprintf(buf, n,
				       "%s is loaded %s%zu times, and each copy has its own '%s': "
				       "give an address, one of ",
				       v->module, count == COPIES_SHOWN ? "at least " : "", count,
				       v->name);
	for (size_t i = 0; i < count && used < n; i++)
		used += (size_t)snprintf(buf + used, n - used, "%s0x%llx:%llu", i ? ", " : "",
					 (unsigned long long)at[i], (unsigned long long)v->size);
	v->name[0] = 0;
	return -ENOTUNIQ;
}

/*
 * A library's debug information has its inner names too: one of the program that has none goes
 * before.
 */
static void prefer_program(struct symbols *s, const char *name, struct named_variable *v)
{
	const char *program = symbols_program(s);
	struct named_variable own;

	if (v->is_global || !v->module || !strcmp(v->module, program))
		return;
	if (!find_symbol(s, NULL, name, NULL, &own) && own.module && !strcmp(own.module, program))
		*v = own;
}

int variables_find(struct symbols *s, const char *scope, const char *name,
		   struct named_variable *out, struct variables_problem *problem)
{
	bool is_module = scope && symbols_each_module(s, scope, module_visit, NULL);
	struct find *f = calloc(1, sizeof(*f));
	char plain[VARIABLE_NAME_BYTES];

	problem->text[0] = 0;
	memset(out, 0, sizeof(*out));
	if (!f)
		return -ENOMEM;
	f->name = die_plain(name, plain, sizeof(plain));
	f->last = die_last_part(f->name);
	f->file = is_module ? NULL : scope;
	find_run(s, is_module ? scope : NULL, f);
	int err = f->count ? 0 : -ENOENT;
	if (is_found(f) && f->count > 1)
		err = problem_several(f, f->name, problem);
	else if (f->count)
		*out = f->found[0];
	/* What debug information does not have, the symbol table may: it is defined elsewhere. */
	if (!err && out->where == VARIABLE_GONE) {
		struct named_variable declared = *out;
		find_symbol(s, is_module ? scope : NULL, declared.name, &declared, out);
	} else if (err == -ENOENT && !f->file) {
		err = find_symbol(s, scope, name, NULL, out);
		if (err == -ENOTUNIQ)
			snprintf(problem->text, sizeof(problem->text),
				 "several local symbols are named '%s'", name);
	}
	free(f);
	if (!err && !scope)
		prefer_program(s, name, out);
	if (!err)
		err = problem_copies(s, out, problem);
	if (!err)
		move_to_what_runs(s, out);
	return err;
}

static int variables_near_visit(const struct die_visit *v, Dwarf_Die *die)
{
	const char *name = is_variable(die) ? clean_die_name(die) : NULL;

	if (name)
		near_add(v->arg, name);
	return 0;
}

size_t variables_near(struct symbols *s, const char *name, const char **names, size_t n)
{
	const char *seen[NEAR_NAMES_MAX];
	struct near_list list = { .wanted = die_last_part(name), .names = seen, .max = n };

	if (n > NEAR_NAMES_MAX)
		list.max = n = NEAR_NAMES_MAX;
	dies_walk(s, NULL, 0, variables_near_visit, &list);
	size_t count = symbols_near(s, list.wanted, names, n);
	/* Take the better list: that of a program with debug information, most often. */
	if (list.count && (!count || list.scores[0] <= near_score(list.wanted, names[0]))) {
		memcpy(names, seen, list.count * sizeof(*names));
		return list.count;
	}
	return count;
}

struct list {
	const char *file;
	const char *pattern;
	bool is_part; /* no pattern characters: anywhere in the name */
	variables_visitor visit;
	void *arg;
};

static bool list_fits(const struct list *l, const char *name, const char *last)
{
	if (l->is_part)
		return strcasestr(name, l->pattern) != NULL;
	return !fnmatch(l->pattern, name, 0) || !fnmatch(l->pattern, last, 0);
}

static int list_visit(const struct die_visit *v, Dwarf_Die *die)
{
	struct list *l = v->arg;
	struct named_variable variable;

	if (!is_variable(die) || !dwarf_hasattr(die, DW_AT_location) || !clean_die_name(die))
		return 0;
	variable_fill(v, die, &variable);
	if (variable.where != VARIABLE_STATIC && variable.where != VARIABLE_THREAD)
		return 0;
	/* What the compiler made for __func__ is not one of the program's. */
	if (die_flag(die, DW_AT_artificial))
		return 0;
	if ((l->file && !is_in_file(v, die, l->file)) ||
	    !list_fits(l, variable.name, clean_die_name(die)))
		return 0;
	move_to_what_runs(v->s, &variable);
	return l->visit(&variable, l->arg);
}

static int list_symbol(Dwfl_Module *mod, const char *name, const GElf_Sym *sym, uint64_t address,
		       void *arg)
{
	struct list *l = arg;
	int type = GELF_ST_TYPE(sym->st_info);
	Dwarf_Addr bias;

	/* A symbol without size is the name of a version, or a mark of the linker. */
	if ((type != STT_OBJECT && type != STT_TLS) || !sym->st_size ||
	    dwfl_module_getdwarf(mod, &bias))
		return 0;
	struct named_variable variable = {
		.where = type == STT_TLS ? VARIABLE_THREAD : VARIABLE_STATIC,
		.address = address,
		.size = sym->st_size,
		.module = symbols_module_name(mod),
		.is_global = GELF_ST_BIND(sym->st_info) != STB_LOCAL,
	};
	char *readable = symbols_demangle(name);
	snprintf(variable.name, sizeof(variable.name), "%s", readable ? readable : name);
	free(readable);
	variable.name[strcspn(variable.name, "@")] = 0;
	if (!list_fits(l, variable.name, variable.name))
		return 0;
	return l->visit(&variable, l->arg);
}

static int list_run(struct symbols *s, const char *module, struct list *l)
{
	int result = dies_walk(s, module, DIES_FUNCTIONS, list_visit, l);

	if (!result && !l->file)
		result = symbols_walk(s, module, list_symbol, l);
	return result;
}

int variables_list(struct symbols *s, const char *pattern, bool in_libraries,
		   variables_visitor visit, void *arg)
{
	const char *slash = strrchr(s->exe, '/');
	const char *colon = strchr(pattern, ':');
	char *scope = NULL;
	struct list l = { .pattern = pattern, .visit = visit, .arg = arg };

	if (colon && colon > pattern && colon[1] != ':') {
		scope = strndup(pattern, (size_t)(colon - pattern));
		l.pattern = colon + 1;
	}
	bool is_module = scope && symbols_each_module(s, scope, module_visit, NULL);
	l.is_part = !strpbrk(l.pattern, "*?[");
	l.file = is_module ? NULL : scope;
	const char *module = is_module ? scope : scope || in_libraries || !slash ? NULL : slash + 1;
	int result = list_run(s, module, &l);
	free(scope);
	return result;
}
