/* SPDX-License-Identifier: MIT */
/*
 * code_sites.h - locations in code as users write them, and the instructions that they mean.
 *
 *   parse_line, conn_*, ns::Class::method	functions of the program, else of its libraries
 *   libc.so.6:mem*				functions of one object
 *   file.c:helper				functions of one source file
 *   file.c:12					the first instruction of a line, in each function
 *						that has code of it
 *   parse_line+0x1c, 0x5581c0			an instruction
 *
 * A function is at its symbol, and at each copy that the compiler inlined into other functions.
 */
#ifndef CODE_SITES_H
#define CODE_SITES_H

#include "report/dwarf/symbols.h"

#include <stdbool.h>

enum code_site_kind {
	/* its first instruction, where arguments and return address are still in their registers */
	CODE_SITE_FUNCTION,
	CODE_SITE_INLINED, /* a copy of a function in another */
	CODE_SITE_LINE,
	CODE_SITE_ADDRESS,
};

struct code_site {
	enum code_site_kind kind;
	uint64_t address;     /* of the instruction */
	uint64_t function;    /* start of the function that contains it; 0: unknown */
	uint64_t die;	      /* of an inlined copy: its offset in the debug information */
	char *name;	      /* function, `file.c:12` or the address as it was given */
	const char *module;   /* NULL: no file behind it */
	bool is_chosen;	      /* one of several implementations (ifunc) */
	bool is_clone;	      /* made by the compiler, perhaps with other arguments */
	bool is_reduced;      /* such a clone: its result may be left out too */
	bool is_emulated;     /* see code_is_emulated() */
	unsigned int refusal; /* see code_uprobe_refusal() */
	bool is_certain;      /* an instruction begins there */
};

#define CODE_SITES_NAMES 200

struct code_sites {
	struct code_site *site; /* by address, each once */
	size_t count;
	size_t room;
	/* What could not be: */
	/* functions chosen at load time (ifunc), their implementation not found */
	size_t unresolved;
	char unresolved_names[CODE_SITES_NAMES];
	char elsewhere[CODE_SITES_NAMES]; /* objects that have functions of that name too */
	bool all_copies; /* set by the caller: include copies of functions that match a pattern */
	size_t merged;	 /* sites in further mappings of the same file, which one uprobe serves */
	char merged_names[CODE_SITES_NAMES]; /* the objects */
	size_t copies_left_out;		     /* of functions that match a pattern */
	int other_line;	  /* of file.c:12, the line that has code; 0: the one asked for */
	bool is_unloaded; /* a library that is loaded later may have it */
};

/*
 * Adds the sites of a location. 0; -ENOENT: nothing matches; -EINVAL: the form is wrong, or no
 * instruction begins there; -ENOMEM. On an error why has a sentence, or n is 0: what it costs to
 * find the words is saved.
 */
int code_sites_find(struct symbols *s, const char *where, struct code_sites *out, char *why,
		    size_t n);

/*
 * The lines of one source file that have code, to look up many. file is the end of its name, as in
 * file.c:12. is_path: it is a whole name of the user's; of the files whose names end alike, those
 * that share most of it are meant. 0 or -ENOMEM. *out is released by code_lines_close(), before the
 * symbols.
 */
struct code_lines;
int code_lines_open(struct symbols *s, const char *file, bool is_path, struct code_lines **out);
/* As code_sites_find() of one line. */
int code_lines_at(struct code_lines *lines, int line, struct code_sites *out, char *why, size_t n);
void code_lines_close(struct code_lines *lines);

/* The site of an address, or NULL. */
const struct code_site *code_sites_at(const struct code_sites *sites, uint64_t address);

/* Checks only the form, before there is a process. 0 or -EINVAL with why. */
int code_sites_check(const char *where, char *why, size_t n);

void code_sites_free(struct code_sites *sites);

#endif
