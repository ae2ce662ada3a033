/* SPDX-License-Identifier: MIT */
/* code_sites.c - see code_sites.h. */
#include "base/grow.h"
#include "report/code/code_sites_priv.h"
#include "report/safe/clean.h"

#include "report/dwarf/ada.h"
#include "report/dwarf/dies.h"
#include "report/dwarf/go.h"
#include "report/dwarf/instruction.h"
#include "report/dwarf/missing.h"
#include "report/dwarf/near.h"
#include "report/dwarf/unit.h"
#include "report/dwarf/versions.h"
#include "report/path.h"

#include <ctype.h>
#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAR_KEPT_MAX 256

/* A location as it was parsed, before there is a process. */
struct location {
	char scope[256]; /* object or source file; empty: none */
	char name[512];
	uint64_t number; /* the line, the offset or the address */
	enum {
		LOCATION_NAME,
		LOCATION_LINE,
		LOCATION_OFFSET,
		LOCATION_ADDRESS
	} form;
};

static bool parse_number(const char *text, uint64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	*out = strtoull(text, &end, 0);
	return !*end && !errno;
}

/* The ':' between scope and name: not one of "::", nor behind a '(' or '<'. */
static const char *sites_scope_end(const char *text)
{
	for (const char *p = text; *p && *p != '(' && *p != '<'; p++) {
		if (*p != ':')
			continue;
		if (p[1] != ':')
			return p == text ? NULL : p;
		p++;
	}
	return NULL;
}

static int sites_parse(const char *text, struct location *w, char *why, size_t n)
{
	const char *colon = sites_scope_end(text);
	const char *rest = colon ? colon + 1 : text;
	const char *plus = strrchr(rest, '+');

	memset(w, 0, sizeof(*w));
	if (!*rest || strlen(text) >= sizeof(w->name) ||
	    (colon && (size_t)(colon - text) >= sizeof(w->scope))) {
		snprintf(why, n,
			 "invalid location '%.200s': expected a function, file:line, an address "
			 "or function+offset (example: server.c:120)",
			 text);
		return -EINVAL;
	}
	if (colon)
		memcpy(w->scope, text, (size_t)(colon - text));
	snprintf(w->name, sizeof(w->name), "%s", rest);
	w->form = LOCATION_NAME;
	if (isdigit((unsigned char)rest[0])) {
		w->form = colon ? LOCATION_LINE : LOCATION_ADDRESS;
		if (parse_number(rest, &w->number) &&
		    (!colon || (w->number && w->number < 10000000)))
			return 0;
		snprintf(why, n,
			 colon ? "invalid location '%.200s': expected a line number, not '%.100s'" :
				 "invalid address '%.200s': expected 0x and hexadecimal digits, or "
				 "decimal digits",
			 text, rest);
		return -EINVAL;
	}
	if (plus && plus > rest && parse_number(plus + 1, &w->number)) {
		w->form = LOCATION_OFFSET;
		w->name[plus - rest] = 0;
	}
	return 0;
}

int code_sites_check(const char *text, char *why, size_t n)
{
	struct location w;

	return sites_parse(text, &w, why, n);
}

int code_sites_add(struct code_sites *sites, struct code_site site, const char *name)
{
	if (grow_room(sites->site, sites->count, sites->room))
		return -ENOMEM;
	site.name = strdup(name);
	if (!site.name)
		return -ENOMEM;
	sites->site[sites->count++] = site;
	return 0;
}

void code_sites_free(struct code_sites *sites)
{
	for (size_t i = 0; i < sites->count; i++)
		free(sites->site[i].name);
	free(sites->site);
	memset(sites, 0, sizeof(*sites));
}

uint64_t code_function_start(struct symbols *s, uint64_t address, uint64_t *size)
{
	Dwfl_Module *mod = dwfl_addrmodule(s->dwfl, address);
	uint64_t start;
	uint64_t bytes;
	GElf_Off offset;
	GElf_Sym sym;

	if (mod && go_function(s, mod, address, &start, &bytes)) {
		if (size)
			*size = bytes;
		return start;
	}
	if (!mod || !clean_symbol_at(mod, address, &offset, &sym))
		return 0;
	if (GELF_ST_TYPE(sym.st_info) != STT_FUNC || (sym.st_size && offset >= sym.st_size))
		return 0;
	if (size)
		*size = sym.st_size;
	return address - offset;
}

struct search {
	struct symbols *s;
	struct function_name wanted;
	struct code_sites *out;
	const char *file; /* that is named before its local symbols; NULL: none */
	Dwfl_Module *file_in;
	size_t before;	 /* sites of earlier searches */
	bool with_parts; /* pieces of functions too, which have names of their own */
	size_t parts;
	Dwfl_Module *first; /* the object that has some */
	bool is_program;
	bool is_plain;	 /* the name is one word, which is in each symbol that fits */
	bool is_mangled; /* it is a symbol, as nm and linkers print it */
	char lower[256]; /* the name in small letters; empty: it is that, or too long */
	int err;
};

/* C++ has short forms for classes of std, which a symbol may begin with. */
static bool is_short_form(const char *symbol)
{
	return !strncmp(symbol, "_ZNS", 4) || !strncmp(symbol, "_ZNKS", 5);
}

static bool is_one_word(const char *name)
{
	return !name[strspn(name,
			    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] &&
	       !strstr(name, "operator");
}

static bool has_part(const char *name, const char *part)
{
	const char *at = strstr(name, part);
	size_t n = strlen(part);

	return at && at > name && (!at[n] || at[n] == '.');
}

/* Compilers append a dot and the kind of a clone to a function's name. */
static bool is_clone(const char *name)
{
	return has_part(name, ".isra") || has_part(name, ".constprop") || has_part(name, ".part");
}

/* A piece that the function jumps to, or calls after a part of it was inlined. */
static bool is_part(const char *name)
{
	return has_part(name, ".cold") || has_part(name, ".part");
}

void code_sites_note(char *list, const char *name)
{
	size_t used = strlen(list);

	if (used > 0 && list[used - 1] == '.')
		return;
	if (used + strlen(name) + 8 < CODE_SITES_NAMES)
		snprintf(list + used, CODE_SITES_NAMES - used, "%s%s", used ? ", " : "", name);
	else
		snprintf(list + used, CODE_SITES_NAMES - used, ", ...");
}

/* Is another object's function of that name left out, because an earlier object has one? */
static bool is_elsewhere(struct search *f, Dwfl_Module *mod)
{
	if (!f->first) {
		f->first = mod;
		const char *path = dwfl_module_info(mod, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
		f->is_program = path && !strcmp(path, f->s->exe);
	}
	if (f->first == mod || !f->is_program)
		return false;
	const char *module = symbols_module_name(mod);
	if (module && !strstr(f->out->elsewhere, module))
		code_sites_note(f->out->elsewhere, module);
	return true;
}

static int add_function(struct search *f, Dwfl_Module *mod, const char *name, const char *readable,
			uint64_t address, bool is_ifunc)
{
	if (symbols_is_agent(symbols_module_name(mod)) || is_elsewhere(f, mod))
		return 0;
	if (is_ifunc) {
		uint64_t chosen = code_ifunc_target(f->s, mod, address, name);
		if (!chosen) {
			f->out->unresolved++;
			code_sites_note(f->out->unresolved_names, name);
			return 0;
		}
		address = chosen;
	}
	return code_sites_add(f->out,
			      (struct code_site){
				      .kind = CODE_SITE_FUNCTION,
				      .address = address,
				      .function = address,
				      .module = symbols_module_name(mod),
				      .is_clone = is_clone(name),
				      .is_reduced = has_part(name, ".isra"),
				      .is_chosen = is_ifunc,
				      .is_certain = true,
			      },
			      readable);
}

static bool readable_fits(const struct search *f, const char *readable, const char *symbol)
{
	/* `non-virtual thunk to X::f()` jumps to X::f, where the call is seen. */
	if (strstr(readable, "thunk to "))
		return false;
	return f->is_mangled ? !strcmp(symbol, f->wanted.text) :
			       function_name_fits(&f->wanted, readable);
}

static bool name_fits(const struct search *f, Dwfl_Module *mod, const char *name, char *base)
{
	/* `f` finds f.isra.0 too; a pattern may name it as it is. */
	char *dot = strchr(base, '.');

	if (go_is(f->s, mod) && !is_clone(name) && !is_part(name))
		return go_name_fits(&f->wanted, name);
	if (function_name_fits(&f->wanted, name))
		return true;
	if (!dot || dot == base || name[0] == '_')
		return false;
	*dot = 0;
	bool fits = function_name_fits(&f->wanted, base);
	*dot = '.';
	return fits;
}

/* A symbol of Ada has small letters, and the source has what its author likes. */
static bool ada_fits(const struct search *f, const char *name)
{
	struct function_name wanted = f->wanted;

	if (f->lower[0])
		wanted.text = f->lower;
	return function_name_fits_dotted(&wanted, name);
}

/* readable: NULL, as the symbol is; dotted: NULL, it is not of D or Ada. */
static bool symbol_fits(const struct search *f, Dwfl_Module *mod, char *symbol,
			const char *readable, const char *dotted)
{
	if (!readable)
		return name_fits(f, mod, symbol, symbol) || (dotted && ada_fits(f, dotted));
	if (dotted && !f->is_mangled)
		return function_name_fits_dotted(&f->wanted, dotted);
	return readable_fits(f, readable, symbol);
}

/*
 * Is it of the source file that is wanted? Without debug information the symbol table knows it, for
 * functions that are local to a file.
 */
static bool is_of_source(const struct search *f, Dwfl_Module *mod, const GElf_Sym *sym,
			 uint64_t address)
{
	Dwarf_Addr bias;
	Dwarf_Die *cu;

	if (!f->wanted.source)
		return true;
	cu = unit_at(mod, address, &bias);
	if (cu && path_ends_in(clean_die_name(cu), f->wanted.source))
		return true;
	return GELF_ST_BIND(sym->st_info) == STB_LOCAL && path_ends_in(f->file, f->wanted.source);
}

static int sites_search_visit(Dwfl_Module *mod, const char *symbol, const GElf_Sym *sym,
			      uint64_t address, void *arg)
{
	struct search *f = arg;
	int type = GELF_ST_TYPE(sym->st_info);
	char base[512];
	char plain[512];
	char ada[512];

	if (type == STT_FILE || f->file_in != mod) {
		f->file = type == STT_FILE ? symbol : NULL;
		f->file_in = mod;
	}
	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || !address)
		return 0;
	if (f->is_plain && !strstr(symbol, f->wanted.text) && !is_short_form(symbol) &&
	    (!f->lower[0] || !strstr(symbol, f->lower)))
		return 0;
	snprintf(base, sizeof(base), "%.*s", (int)strcspn(symbol, "@"), symbol);
	if (!base[0])
		snprintf(base, sizeof(base), "%s", symbol);
	char *readable = symbols_demangle(base);
	const char *dotted = demangle_is_d(base) ?
				     readable :
				     ada_name(f->s, mod, address, base, ada, sizeof(ada));
	bool fits = symbol_fits(f, mod, base, readable, dotted) &&
		    is_of_source(f, mod, sym, address);
	if (fits && is_part(base) && !is_part(f->wanted.text) && !f->with_parts) {
		f->parts++;
		fits = false;
	}
	if (fits)
		f->err = add_function(f, mod, base,
				      dotted ? dotted :
				      readable ?
					       function_name_plain(readable, plain, sizeof(plain)) :
					       base,
				      address, type == STT_GNU_IFUNC);
	free(readable);
	return f->err;
}

static int copies_visit(Dwfl_Module *mod, void *arg)
{
	struct search *f = arg;
	size_t before = f->out->count;
	const char *path = dwfl_module_info(mod, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

	/* After the program's own, those of libraries are others of the same name. */
	if (f->first && f->is_program && mod != f->first)
		return 0;
	f->err = code_inlined_find(f->s, mod, &f->wanted, f->out);
	if (!f->first && f->out->count > before) {
		f->first = mod;
		f->is_program = path && !strcmp(path, f->s->exe);
	}
	return f->err;
}

struct near_search {
	struct symbols *s;
	struct near_list list;
	bool is_stripped;   /* the program is; then the names are its own alone */
	bool is_declared;   /* the debug information has exactly this name, but there is no code */
	const char *source; /* that is wanted, when no object has that name */
	bool has_source;    /* a function is of it */
	/* The last parts of mangled names: copies, to be freed. */
	char *kept[NEAR_KEPT_MAX];
	size_t kept_count;
};

/* The last part of `void net::Conn::open(int)`, as the debug information has it. */
static void near_add_mangled(struct near_search *near, const char *symbol)
{
	char plain[512];
	char *readable = symbols_demangle(symbol);

	if (!readable)
		return;
	const char *last = die_last_part(function_name_plain(readable, plain, sizeof(plain)));
	if (near->kept_count < NEAR_KEPT_MAX && near_score(near->list.wanted, last) < NEAR_NOT) {
		char *copy = strdup(last);
		if (copy && near_add(&near->list, copy))
			near->kept[near->kept_count++] = copy;
		else
			free(copy);
	}
	free(readable);
}

/* Takes the name, which may be NULL. */
static void near_add_dotted(struct near_search *near, char *name)
{
	if (name && near->kept_count < NEAR_KEPT_MAX && near_add(&near->list, name))
		near->kept[near->kept_count++] = name;
	else
		free(name);
}

static int sites_near_visit(Dwfl_Module *mod, const char *name, const GElf_Sym *sym,
			    uint64_t address, void *arg)
{
	struct near_search *near = arg;
	int type = GELF_ST_TYPE(sym->st_info);

	if (type != STT_FUNC && type != STT_GNU_IFUNC)
		return 0;
	char ada[512];

	if (demangle_is_d(name) || ada_name(near->s, mod, address, name, ada, sizeof(ada)))
		near_add_dotted(near, demangle_is_d(name) ? symbols_demangle(name) : strdup(ada));
	else if (name[0] == '_' && (name[1] == 'Z' || name[1] == 'R'))
		near_add_mangled(near, name);
	else if (!strpbrk(name, "@.") || go_is(near->s, mod))
		near_add(&near->list, name);
	return 0;
}

static int near_die_visit(const struct die_visit *v, Dwarf_Die *die)
{
	struct near_search *near = v->arg;
	const char *name = dwarf_tag(die) == DW_TAG_subprogram ? clean_die_name(die) : NULL;

	if (!name)
		return 0;
	near->has_source = near->has_source ||
			   (near->source && path_ends_in(clean_die_name(v->cu), near->source));
	near->is_declared = near->is_declared || !strcmp(name, near->list.wanted);
	near_add(&near->list, name);
	return 0;
}

static void explain_not_found(struct symbols *s, const struct location *w,
			      const struct near_search *near, struct code_sites *out, char *why,
			      size_t n)
{
	const struct near_list *list = &near->list;
	char question[300];

	near_question(list, question, sizeof(question));
	if (near->is_stripped && (!list->count || list->scores[0] > 1)) {
		char remedy[MISSING_TEXT];
		missing_remedy(s, remedy, sizeof(remedy));
		snprintf(why, n,
			 "%s is stripped: it names no function '%s'; %s, or give an address",
			 symbols_program(s), w->name, remedy);
	} else if (near->source && !near->has_source) {
		out->is_unloaded = true;
		snprintf(
			why, n,
			"no loaded object of %s, and no source file that its debug information has, is "
			"named '%s'; try again when the library is loaded",
			symbols_program(s), w->scope);
	} else if (near->is_declared && !strcmp(list->wanted, w->name))
		snprintf(why, n, "'%s' has no code in %s: the compiler inlined or removed it%s",
			 w->name, w->scope[0] ? w->scope : symbols_program(s), question);
	else
		snprintf(why, n, "no function is named '%s' in %s%s", w->name,
			 w->scope[0] ? w->scope : symbols_program(s), question);
}

static int not_found(struct symbols *s, const struct location *w, const struct search *f,
		     struct code_sites *out, char *why, size_t n)
{
	const char *module = w->scope[0] && !f->wanted.source ? w->scope : NULL;
	const char *names[4];
	struct near_search near = {
		.s = s,
		.list = { .wanted = die_last_part(w->name), .names = names, .max = 4 },
		.source = f->wanted.source,
	};

	if (!n)
		return -ENOENT;
	if (f->wanted.is_pattern) {
		snprintf(why, n, "no function matches '%s' in %s", w->name,
			 module ? module : symbols_program(s));
		return -ENOENT;
	}
	/* What resembles it in a library hides the cause: the program exports few names. */
	Dwfl_Module *program = symbols_first_module(s, NULL);
	near.is_stripped = !w->scope[0] && symbols_is_stripped(s) && !go_has_names(s, program);
	if (near.is_stripped)
		module = symbols_program(s);
	dies_walk(s, module, 0, near_die_visit, &near);
	symbols_walk(s, module, sites_near_visit, &near);
	near.is_declared = near.is_declared && !f->wanted.source;
	explain_not_found(s, w, &near, out, why, n);
	for (size_t i = 0; i < near.kept_count; i++)
		free(near.kept[i]);
	return -ENOENT;
}

static int is_there(Dwfl_Module *mod, void *arg)
{
	return 1;
}

static int add_address(struct symbols *s, uint64_t address, const char *text,
		       struct code_sites *out, char *why, size_t n);

/* Functions of one object have one name: they are versions of it. */
static int label_versions(struct symbols *s, struct code_sites *out)
{
	char label[VERSION_LABEL];

	for (size_t i = 0; i < out->count; i++) {
		struct code_site *site = &out->site[i];
		if (site->kind != CODE_SITE_FUNCTION ||
		    !versions_label(s, site->address, site->name, label, sizeof(label)))
			continue;
		char *name = strdup(label);
		if (!name)
			return -ENOMEM;
		free(site->name);
		site->name = name;
	}
	return 0;
}

static int find_functions(struct symbols *s, const struct location *w, struct code_sites *out,
			  char *why, size_t n)
{
	const char *scope = w->scope[0] ? w->scope : NULL;
	struct search f = { .s = s, .out = out, .before = out->count };
	size_t unresolved = out->unresolved;
	struct variable versioned;

	/* `file.c:name`, unless an object has that name. */
	if (scope && !symbols_each_module(s, scope, is_there, NULL)) {
		f.wanted.source = scope;
		scope = NULL;
	}
	if (!versions_find(s, scope, w->name, &versioned) && versioned.is_function)
		return add_address(s, versioned.address, w->name, out, why, n);
	f.wanted.text = w->name;
	f.wanted.is_pattern = !strstr(w->name, "operator") && strpbrk(w->name, "*?[") != NULL &&
			      !go_is_literal(s, w->name);
	const char *paren = strchr(w->name, '(');
	f.wanted.has_arguments = paren && strncmp(paren, "(anon", 5) != 0 &&
				 !strstr(w->name, "operator");
	f.is_plain = !f.wanted.is_pattern && is_one_word(w->name);
	for (size_t i = 0; w->name[i] && strlen(w->name) < sizeof(f.lower); i++)
		f.lower[i] = (char)tolower((unsigned char)w->name[i]);
	if (!strcmp(f.lower, w->name))
		f.lower[0] = '\0';
	char *readable = f.is_plain ? symbols_demangle(w->name) : NULL;
	f.is_mangled = readable != NULL;
	free(readable);
	symbols_walk(s, scope, sites_search_visit, &f);
	if (!f.err)
		symbols_each_module(s, scope, copies_visit, &f);
	if (!f.err && out->count == f.before && f.parts) {
		f.with_parts = true;
		symbols_walk(s, scope, sites_search_visit, &f);
	}
	if (f.err)
		return f.err;
	if (out->count > f.before)
		return f.is_plain ? label_versions(s, out) : 0;
	if (out->unresolved > unresolved) {
		snprintf(why, n,
			 "%s has several implementations (ifunc), and the one that this process "
			 "uses is not known",
			 out->unresolved_names);
		return -ENOENT;
	}
	return not_found(s, w, &f, out, why, n);
}

/* An instruction by its address: certain where it can be decoded from the function's start on. */
static int add_address(struct symbols *s, uint64_t address, const char *text,
		       struct code_sites *out, char *why, size_t n)
{
	uint64_t start = code_function_start(s, address, NULL);
	int boundary = start ? code_is_boundary(s, start, address) : -ENOENT;
	struct code_site site = { .kind = CODE_SITE_ADDRESS,
				  .address = address,
				  .function = start,
				  .is_certain = boundary == 1 };
	unsigned char byte;
	struct place place;

	symbols_place(s, address, &place);
	site.module = place.module;
	if (boundary == 0) {
		snprintf(why, n,
			 "no instruction begins at %s: a breakpoint there would break the program",
			 text);
		return -EINVAL;
	}
	if (symbols_read(s, address, &byte, 1)) {
		snprintf(why, n, "no memory is mapped at %s", text);
		return -ENOENT;
	}
	if (start == address)
		site.kind = CODE_SITE_FUNCTION;
	return code_sites_add(out, site,
			      start == address && !strchr(text, '@') ? place.function : text);
}

static int find_offset(struct symbols *s, const struct location *w, const char *text,
		       struct code_sites *out, char *why, size_t n)
{
	struct code_sites functions = { 0 };
	int err = find_functions(s, w, &functions, why, n);
	size_t count = 0;

	for (size_t i = 0; i < functions.count && !err; i++) {
		const struct code_site *f = &functions.site[i];
		if (f->kind != CODE_SITE_FUNCTION)
			continue;
		count++;
		err = add_address(s, f->address + w->number, text, out, why, n);
	}
	if (!err && !count) {
		snprintf(why, n, "%s is only inlined, so it has no address of its own", w->name);
		err = -ENOENT;
	}
	code_sites_free(&functions);
	return err;
}

static int find_line(struct symbols *s, const struct location *w, struct code_sites *out, char *why,
		     size_t n)
{
	struct code_lines *lines;
	int err = code_lines_open(s, w->scope, false, &lines);

	if (err)
		return err;
	err = code_lines_find(lines, (int)w->number, out, why, n);
	code_lines_close(lines);
	return err;
}

int code_sites_find(struct symbols *s, const char *text, struct code_sites *out, char *why,
		    size_t n)
{
	struct location w;
	int err = sites_parse(text, &w, why, n);

	if (err)
		return err;
	switch (w.form) {
	case LOCATION_LINE:
		err = find_line(s, &w, out, why, n);
		break;
	case LOCATION_ADDRESS:
		err = add_address(s, w.number, text, out, why, n);
		break;
	case LOCATION_OFFSET:
		err = find_offset(s, &w, text, out, why, n);
		break;
	default:
		err = find_functions(s, &w, out, why, n);
	}
	if (err == -ENOMEM)
		snprintf(why, n, "out of memory");
	if (!err)
		code_sites_choose(s, out);
	return err;
}

const struct code_site *code_sites_at(const struct code_sites *sites, uint64_t address)
{
	size_t low = 0;
	size_t high = sites->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (sites->site[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < sites->count && sites->site[low].address == address ? &sites->site[low] : NULL;
}
