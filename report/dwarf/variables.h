/* SPDX-License-Identifier: MIT */
/*
 * variables.h - variables of a process by name, with their types, from debug information; from
 * the symbol tables where there is none.
 */
#ifndef REPORT_DWARF_VARIABLES_H
#define REPORT_DWARF_VARIABLES_H

#include "report/dwarf/symbols.h"
#include "report/dwarf/types.h"

/* Where a variable is. */
enum variable_where {
	VARIABLE_STATIC, /* at one address */
	VARIABLE_THREAD, /* in each thread elsewhere: address is the offset in its object's block */
	VARIABLE_CONSTANT, /* the compiler put its value into the code */
	VARIABLE_GONE,	   /* optimised away */
	VARIABLE_LOCAL,	   /* in a function's frame or a register */
	VARIABLE_FUNCTION, /* no variable at all */
};

#define VARIABLE_NAME_BYTES 256

struct named_variable {
	char name[VARIABLE_NAME_BYTES]; /* qualified: ns::Class::member, function::variable */
	enum variable_where where;
	uint64_t address;
	uint64_t size;		 /* 0: unknown */
	uint64_t object;	 /* where the object it is in was loaded: its bias */
	int64_t constant;	 /* VARIABLE_CONSTANT */
	const struct type *type; /* NULL: no debug information */
	const char *module;
	const char *file; /* NULL: unknown */
	int line;
	bool is_global; /* other files of the program can name it */
};

/* Why a name was not found, or which ones it could mean: for the user. */
struct variables_problem {
	char text[400];
};

/*
 * Find `name`, qualified or not: `count` finds ns::count too when that is the only one.
 * scope is the file (`conn.c`, `net/conn.c`) or the object (`libfoo.so.1`, `libfoo`) it is in, or
 * NULL. Global before static, the program before its libraries.
 * 0; -ENOENT; -ENOTUNIQ: several, *problem lists them, and out->name is empty; or several local
 * symbols without debug information, and *out is the first. Thread-local ones, constants, local
 * and lost ones are found too: see out->where.
 */
int variables_find(struct symbols *s, const char *scope, const char *name,
		   struct named_variable *out, struct variables_problem *problem);

/* Up to n names that resemble name, best first; the strings live as long as s. */
size_t variables_near(struct symbols *s, const char *name, const char **names, size_t n);

/*
 * Visits every variable that can be watched and matches the pattern: a shell pattern, or a part of
 * the name if it has no *?[. `scope:pattern` as above; without a scope those of the program, and of
 * its libraries if wanted. A value other than 0 from visit ends the walk and is returned.
 */
typedef int (*variables_visitor)(const struct named_variable *v, void *arg);
int variables_list(struct symbols *s, const char *pattern, bool in_libraries,
		   variables_visitor visit, void *arg);

#endif
