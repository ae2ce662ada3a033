/* SPDX-License-Identifier: MIT */
/* patch_find.c - see patch_find.h. */
#include "report/patch/patch_find.h"

#include "report/code/code_folded.h"
#include "report/code/code_sites_priv.h"
#include "report/dwarf/dynamic.h"
#include "report/dwarf/missing.h"
#include "report/dwarf/versions.h"
#include "report/patch/patch_copies.h"
#include "report/path.h"
#include "report/safe/clean.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reason {
	char *why;
	size_t size;
};

__attribute__((format(printf, 3, 4))) static int find_refuse(const struct reason *to, int err,
							     const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(to->why, to->size, format, args);
	va_end(args);
	return err;
}

/* Behind `file.c:` or `object:`. */
static const char *bare_name(const char *name)
{
	const char *colon = strrchr(name, ':');

	return colon && colon > name && colon[-1] != ':' ? colon + 1 : name;
}

/* Is it the function that is meant, and not a copy or a clone of it? */
static bool is_meant(const struct code_site *site, const char *name)
{
	return site->kind == CODE_SITE_FUNCTION &&
	       (!site->is_clone || !strcmp(site->name, bare_name(name)));
}

static void list_add(char *list, size_t size, const char *text)
{
	size_t used = strlen(list);

	snprintf(list + used, size - used, "%s%s", used ? ", " : "", text);
}

/* How to name one of several: by its source file, else by its object, else by its address. */
static void list_site(struct symbols *s, const struct code_site *site, bool is_one_object,
		      char *list, size_t size)
{
	struct place p;
	char text[200];

	symbols_place(s, site->function, &p);
	const char *slash = p.file ? strrchr(p.file, '/') : NULL;
	if (p.file)
		snprintf(text, sizeof(text), "%s:%s", slash ? slash + 1 : p.file, site->name);
	else if (site->module && !is_one_object)
		snprintf(text, sizeof(text), "%s:%s", site->module, site->name);
	else
		snprintf(text, sizeof(text), "%s at 0x%llx", site->name,
			 (unsigned long long)site->function);
	list_add(list, size, text);
}

static int refuse_many(struct symbols *s, const char *name, const struct code_sites *sites,
		       size_t count, const struct reason *to)
{
	char list[300] = "";
	const char *module = NULL;
	bool is_one = true;

	for (size_t i = 0; i < sites->count; i++) {
		if (!is_meant(&sites->site[i], name))
			continue;
		is_one = is_one && (!module || module == sites->site[i].module);
		module = sites->site[i].module;
	}
	for (size_t i = 0; i < sites->count; i++)
		if (is_meant(&sites->site[i], name))
			list_site(s, &sites->site[i], is_one, list, sizeof(list));
	return find_refuse(to, -ENOTUNIQ, "'%s' names %zu functions: %s; name one of them", name,
			   count, list);
}

/* There is no code of the whole function under its name. */
static int refuse_none(struct symbols *s, const char *name, const struct code_sites *sites,
		       const struct reason *to)
{
	char list[400] = "";

	for (size_t i = 0; i < sites->count; i++)
		if (sites->site[i].kind == CODE_SITE_FUNCTION)
			return find_refuse(to, -ENOENT,
					   "'%s' exists only as %s: the compiler made a clone, "
					   "perhaps with other arguments; name the clone if the "
					   "replacement takes these",
					   name, sites->site[i].name);
	if (!patch_copies_inlined(s, sites, list, sizeof(list)))
		return find_refuse(to, -ENOENT, "'%s' is not the name of a function", name);
	return find_refuse(to, -ENOENT,
			   "'%s' has no code of its own: the compiler inlined it into %s", name,
			   list);
}

struct cold_search {
	const char *symbol;
	struct patch_found *out;
};

static int cold_visit(Dwfl_Module *mod, const char *name, const GElf_Sym *sym, uint64_t address,
		      void *arg)
{
	const struct cold_search *c = arg;
	size_t n = strlen(c->symbol);

	if (strncmp(name, c->symbol, n) != 0 || strcmp(name + n, ".cold") != 0)
		return 0;
	if (c->out->part_count == PATCH_FOUND_PARTS)
		return -E2BIG;
	c->out->parts[c->out->part_count++] = (struct patch_found_part){ address, sym->st_size };
	return 0;
}

static int take_site(struct symbols *s, const char *name, const struct code_site *site,
		     struct patch_found *out, const struct reason *to)
{
	Dwfl_Module *mod = symbols_module_of(s, site->function);
	struct place p;
	Dwarf_Addr bias;

	symbols_place(s, site->function, &p);
	if (site->is_chosen)
		return find_refuse(to, -EINVAL,
				   "'%s' has several implementations (ifunc); name the one in use: "
				   "%s:%s",
				   name, site->module ? site->module : "?",
				   p.symbol ? p.symbol : "?");
	out->address = site->function;
	out->module = site->module;
	if (code_function_start(s, site->function, &out->size) != site->function || !out->size)
		return find_refuse(to, -EINVAL,
				   "the size of '%s' is not known: its symbol has size 0, as those "
				   "of assembly code have; add a .size to it",
				   name);
	out->is_unseen = !mod || !dwfl_module_getdwarf(mod, &bias);
	const struct cold_search cold = { p.symbol, out };
	if (p.symbol && symbols_walk(s, site->module, cold_visit, (void *)(uintptr_t)&cold))
		return find_refuse(to, -E2BIG,
				   "'%s' is one of more than %d functions with a part %s.cold; "
				   "which is its own is not known",
				   name, PATCH_FOUND_PARTS, p.symbol);
	return 0;
}

/* The last step: the names of sites change. */
static int find_folded(struct symbols *s, struct code_sites *sites, const struct code_site *meant,
		       struct patch_found *out, const struct reason *to)
{
	if (code_folded_label(s, sites))
		return find_refuse(to, -ENOMEM, "out of memory");
	if (code_folded_is(meant->name))
		snprintf(out->folded, sizeof(out->folded), "%.*s",
			 (int)(strlen(meant->name) - strlen(CODE_FOLDED_SAME)), meant->name);
	return 0;
}

static int choose_site(struct symbols *s, const char *name, struct code_sites *sites,
		       struct patch_found *out, const struct reason *to)
{
	const struct code_site *meant = NULL;
	size_t count = 0;

	for (size_t i = 0; i < sites->count; i++) {
		if (!is_meant(&sites->site[i], name))
			continue;
		meant = &sites->site[i];
		count++;
	}
	if (!count)
		return refuse_none(s, name, sites, to);
	if (count > 1)
		return refuse_many(s, name, sites, count, to);
	int err = take_site(s, name, meant, out, to);
	if (err)
		return err;
	patch_copies(s, sites, meant, out->copies, sizeof(out->copies));
	return find_folded(s, sites, meant, out, to);
}

/* Only functions: no line, address, offset or pattern. */
static bool is_function_name(const char *name)
{
	const char *bare = bare_name(name);

	return *bare && !(*bare >= '0' && *bare <= '9') &&
	       (strstr(bare, "operator") || !strpbrk(bare, "*?[+"));
}

int patch_find_function(struct symbols *s, const char *name, struct patch_found *out, char *why,
			size_t n)
{
	const struct reason to = { why, n };
	struct code_sites sites = { .all_copies = true };
	struct patch_found found = { 0 };

	if (!is_function_name(name))
		return find_refuse(&to, -EINVAL,
				   "invalid name '%s': expected a function (examples: parse_line, "
				   "file.c:parse_line, libfoo.so.1:parse_line)",
				   name);
	int err = code_sites_find(s, name, &sites, why, n);
	if (!err)
		err = choose_site(s, name, &sites, &found, &to);
	if (!err)
		*out = found;
	code_sites_free(&sites);
	return err;
}

/* ---- old data and functions ---- */

#define OLD_MAX 8

struct old_search {
	struct symbols *s;
	const char *name;
	const char *source; /* NULL: of any file */
	const char *file;   /* that the local symbols from here on are of */
	Dwfl_Module *mod;
	size_t count; /* of different addresses */
	bool is_global;
	bool is_thread_local;
	struct patch_found found[OLD_MAX];
	const char *files[OLD_MAX];
};

static bool old_name_fits(const struct old_search *f, const char *symbol)
{
	size_t len = strlen(f->name);

	if (!strncmp(symbol, f->name, len) && (!symbol[len] || symbol[len] == '@'))
		return true;
	char *readable = strncmp(symbol, "_Z", 2) ? NULL : symbols_demangle(symbol);
	bool fits = readable && !strcmp(readable, f->name);
	free(readable);
	return fits;
}

static void old_add(struct old_search *f, Dwfl_Module *mod, const GElf_Sym *sym, uint64_t address)
{
	for (size_t i = 0; i < f->count && i < OLD_MAX; i++)
		if (f->found[i].address == address)
			return;
	if (f->count < OLD_MAX) {
		f->found[f->count] = (struct patch_found){ .address = address,
							   .size = sym->st_size,
							   .module = symbols_module_name(mod) };
		f->files[f->count] = f->file;
	}
	f->count++;
}

static int old_visit(Dwfl_Module *mod, const char *name, const GElf_Sym *sym, uint64_t address,
		     void *arg)
{
	struct old_search *f = arg;
	int type = GELF_ST_TYPE(sym->st_info);
	bool is_local = GELF_ST_BIND(sym->st_info) == STB_LOCAL;

	if (f->mod != mod && f->count)
		return 1; /* an earlier object wins, and the program is the first */
	if (f->mod != mod || type == STT_FILE)
		f->file = type == STT_FILE ? name : NULL;
	f->mod = mod;
	if (type == STT_FILE || type == STT_SECTION || !address || !old_name_fits(f, name))
		return 0;
	if (f->source && !(is_local && path_ends_in(f->file, f->source)))
		return 0;
	if (type == STT_TLS) {
		f->is_thread_local = true;
		return 0;
	}
	GElf_Sym meant = *sym;
	if (!is_local) { /* what the loader would bind to */
		address = versions_meant(f->s, mod, f->name, address, &meant.st_size);
		if (type == STT_OBJECT)
			address = dynamic_address(f->s, address, f->name);
		f->count = 0;
		f->is_global = true;
	}
	old_add(f, mod, &meant, address);
	f->found[0].is_unseen = type == STT_GNU_IFUNC;
	return !is_local;
}

static int old_is_there(Dwfl_Module *mod, void *arg)
{
	return 1;
}

static int refuse_old(struct symbols *s, const char *name, const struct old_search *f,
		      const struct reason *to)
{
	const char *near[3];
	char list[300] = "";

	if (f->is_thread_local)
		return find_refuse(to, -EINVAL,
				   "'%s' is thread-local: each thread has its own; reach it by a "
				   "function of the program",
				   name);
	if (f->count > 1) {
		for (size_t i = 0; i < f->count && i < OLD_MAX; i++) {
			char text[200];
			snprintf(text, sizeof(text), "%s:%s", f->files[i] ? f->files[i] : "?",
				 f->name);
			list_add(list, sizeof(list), text);
		}
		return find_refuse(to, -ENOTUNIQ, "'%s' names %zu things: %s; name one of them",
				   name, f->count, list);
	}
	size_t n = symbols_near(s, f->name, near, 3);
	for (size_t i = 0; i < n; i++)
		list_add(list, sizeof(list), near[i]);
	if (symbols_is_stripped(s)) {
		char remedy[MISSING_TEXT];
		missing_remedy(s, remedy, sizeof(remedy));
		return find_refuse(to, -ENOENT, "%s is stripped: it has no name '%s'; %s",
				   symbols_program(s), name, remedy);
	}
	return find_refuse(to, -ENOENT, "nothing is named '%s' in %s%s%s%s", name,
			   symbols_program(s), n ? "; did you mean " : "", list, n ? "?" : "");
}

int patch_find_old(struct symbols *s, const char *name, struct patch_found *out, char *why,
		   size_t n)
{
	const struct reason to = { why, n };
	struct old_search f = { .s = s, .name = bare_name(name) };
	char scope[256] = "";

	if (f.name > name && (size_t)(f.name - name) <= sizeof(scope))
		snprintf(scope, sizeof(scope), "%.*s", (int)(f.name - name - 1), name);
	if (scope[0] && !symbols_each_module(s, scope, old_is_there, NULL))
		f.source = scope;
	symbols_walk(s, scope[0] && !f.source ? scope : NULL, old_visit, &f);
	if (f.count != 1)
		return refuse_old(s, name, &f, &to);
	if (f.found[0].is_unseen)
		return find_refuse(&to, -EINVAL,
				   "'%s' has several implementations (ifunc); call it by its name",
				   name);
	*out = f.found[0];
	return 0;
}
