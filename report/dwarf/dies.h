/* SPDX-License-Identifier: MIT */
/*
 * dies.h - walk the named things in the debug information of a process.
 *
 * There is no index: libdw reads what is walked, and a look-up is a walk over what is at
 * file level, in namespaces and in classes. The bodies of functions are passed over unless asked
 * for, which is most of it.
 */
#ifndef REPORT_DWARF_DIES_H
#define REPORT_DWARF_DIES_H

#include "report/dwarf/symbols_priv.h"

#include <elfutils/libdw.h>

/* What a thing lies in: a namespace, class or function. NULL: file level. */
struct die_scope {
	const struct die_scope *outer;
	const char *name; /* NULL: has none */
};

struct die_visit {
	struct symbols *s;
	Dwfl_Module *mod;
	Dwarf_Addr bias; /* to be added to addresses in the file */
	Dwarf_Die *cu;
	const struct die_scope *scope;
	Dwarf_Die *function; /* it is inside; NULL: none */
	void *arg;
};

/* A value other than 0 ends the walk and is returned. */
typedef int (*die_visitor)(const struct die_visit *v, Dwarf_Die *die);

#define DIES_FUNCTIONS 1u /* the insides of functions too */
#define DIES_SHARED 2u	  /* the file that several programs share their debug information in, too */

/* The program first, then its libraries; or only those that `module` names. */
int dies_walk(struct symbols *s, const char *module, unsigned int flags, die_visitor visit,
	      void *arg);

/*
 * A name with template arguments as people write them: `Box<long>` and not `Box<long int>`,
 * `a<b<c>>` and not `a<b<c> >`. Returns buf, or name itself when there is nothing to do.
 */
const char *die_plain(const char *name, char *buf, size_t n);

/* `outer::inner::name`. */
void die_join(const struct die_scope *scope, const char *name, char *buf, size_t n);

/* The same for a die of which only itself is known. */
void die_qualified(Dwarf_Die *die, char *buf, size_t n);

/* The start of the last part of ns::Class<a::b>: a "::" inside <> parts nothing. */
const char *die_last_part(const char *name);

/*
 * The functions, inlined copies and blocks that contain an address in the file, outermost first: at
 * most DIE_SCOPES_MAX. Returns how many. libdw's dwarf_getscopes() calls itself for each block
 * within a block, as deep as the debug information has it.
 */
#define DIE_SCOPES_MAX 256
int die_scopes(Dwarf_Die *cu, Dwarf_Addr address, Dwarf_Die *scopes);

/*
 * The innermost function or inlined copy among the first `count` of them; false: there is not one.
 */
bool die_innermost_function(const Dwarf_Die *scopes, int count, Dwarf_Die *out);
bool die_function_at(Dwarf_Die *cu, Dwarf_Addr address, Dwarf_Die *out);

/* Does an object of this name (NULL: the program) have debug information? */
bool dies_present(struct symbols *s, const char *module);

/* A number from an attribute, of the die or what it completes. */
bool die_number(Dwarf_Die *die, unsigned int attribute, uint64_t *out);
bool die_flag(Dwarf_Die *die, unsigned int attribute);

/* A file of the unit that a die is in; NULL: unknown. */
const char *die_file_by_number(Dwarf_Die *die, uint64_t number);

/* `file.c` of the declaration, no folders cut; NULL: unknown. */
const char *die_file(Dwarf_Die *die, int *line);

/* DW_AT_language of the unit: <dwarf.h>, languages.h; -1: not known. */
int die_language(Dwarf_Die *die);

/* Languages in which `struct foo` is called `foo`. */
bool die_is_cplusplus(Dwarf_Die *die);

/*
 * The operand of a location's first operation, which with -gsplit-dwarf and from clang is in a
 * table. *is_address: it is the address of a variable.
 */
Dwarf_Addr die_first_number(Dwarf_Attribute *attr, const Dwarf_Op *ops, bool *is_address);

#endif
