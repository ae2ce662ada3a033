/* SPDX-License-Identifier: MIT */
/* code_sites_priv.h - what the files that find locations in code share. */
#ifndef CODE_SITES_PRIV_H
#define CODE_SITES_PRIV_H

#include "report/code/code_sites.h"
#include "report/dwarf/symbols_priv.h"

/* The name of a function that is wanted. */
struct function_name {
	const char *text;
	const char *source; /* the last part of its file's name; NULL: of any */
	bool is_pattern;
	bool has_arguments; /* `f(int)`: the arguments count */
};

/*
 * Does a readable name (`void ns::f<int>(int)`, `f`) fit? A name without scope fits in any scope.
 */
bool function_name_fits(const struct function_name *wanted, const char *name);

/*
 * The same of a name of D or Ada, whose parts have dots between them: `Conn.push` fits
 * app.Conn.push.
 */
bool function_name_fits_dotted(const struct function_name *wanted, const char *name);

/* The name without result type and arguments: `ns::f<int>`. In buf. */
const char *function_name_plain(const char *name, char *buf, size_t n);

/* name is copied. 0 or -ENOMEM. */
int code_sites_add(struct code_sites *sites, struct code_site site, const char *name);

/* Adds a name to a list of CODE_SITES_NAMES bytes, as far as it has room. */
void code_sites_note(char *list, const char *name);

/* When all are found: by address, each once. */
void code_sites_choose(struct symbols *s, struct code_sites *sites);

/* code_inlined.c: copies of functions in others, in these objects or (NULL) all. 0 or -errno. */
int code_inlined_find(struct symbols *s, Dwfl_Module *mod, const struct function_name *wanted,
		      struct code_sites *out);

/* code_lines.c: 0, -ENOENT with why, or -ENOMEM. */
int code_lines_find(struct code_lines *l, int line, struct code_sites *out, char *why, size_t n);

/*
 * code_ifunc.c: what the loader chose for a function that has several implementations: the
 * resolver and the name are those of the symbol. 0: not known (yet).
 */
uint64_t code_ifunc_target(struct symbols *s, Dwfl_Module *mod, uint64_t resolver,
			   const char *name);

/* Where the function begins that contains address, by its symbol; 0: none. */
uint64_t code_function_start(struct symbols *s, uint64_t address, uint64_t *size);

#endif
