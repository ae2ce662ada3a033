/* SPDX-License-Identifier: MIT */
/*
 * expression.h - memory as users name it: `server.clients`, `conn->state`, `table[3].next`,
 * `*(struct foo *)0x5581...`, `conn.c:count`, `ns::Class::total`.
 *
 *   expr    := unary ['+' number | '-' number] [':' length]
 *   unary   := '*' unary | '(' type '*' ... ')' unary | postfix
 *   postfix := primary { '.' member | '->' member | '[' index ']' }
 *   primary := '(' unary ['+' number | '-' number] ')' | number | [file ':' | object ':'] name { '::' name }
 *
 * Parsing needs no process. Resolving reads the pointers of the path as they are now.
 */
#ifndef REPORT_LANG_EXPRESSION_H
#define REPORT_LANG_EXPRESSION_H

#include "report/dwarf/symbols.h"
#include "report/dwarf/types.h"

#define EXPRESSION_TEXT_MAX 512

struct expression;

struct expression_error {
	int column; /* from 1; 0: the whole */
	char text[500];
};

/* 0, -EINVAL with *error, or -ENOMEM. *out is released by expression_free(). */
int expression_parse(const char *text, struct expression **out, struct expression_error *error);
void expression_free(struct expression *e);

/*
 * The same for an expression at the start of a longer text, as in a condition: no offset, no
 * length. Returns the number of characters it takes, or -EINVAL.
 */
int expression_parse_prefix(const char *text, struct expression **out,
			    struct expression_error *error);

/* `+8` and `:4` of the text. */
bool expression_has_offset(const struct expression *e);
uint64_t expression_length(const struct expression *e); /* 0: not given */

/* Only a name: no members, no pointers. NULL: it is more. */
const char *expression_plain_name(const struct expression *e);

/* The variable that it begins with; NULL: it begins with a number. */
const char *expression_first_name(const struct expression *e);

#define EXPRESSION_LINKS_MAX 8

/*
 * How to find the address again: start at base, and for each link read the pointer there and add the
 * link's offset.
 */
struct expression_path {
	uint64_t base;
	size_t links;
	uint64_t offsets[EXPRESSION_LINKS_MAX];
};

struct expression_place {
	uint64_t address;	 /* now */
	uint64_t size;		 /* in bytes; of a bit-field those that contain it; 0: not known */
	const struct type *type; /* NULL: not known */
	uint32_t bit_offset;
	uint32_t bit_size; /* 0: no bit-field */
	struct expression_path path;
	const char *module;	  /* NULL: unknown */
	pid_t tid;		  /* whose thread-local variable it is; 0: it is not thread-local */
	bool is_address;	  /* the text is a number */
	bool is_first_of_several; /* local symbols of the same name */
	char through[200];	  /* `conn = 0x5581c0`, the pointers that were read; empty: none */
};

/*
 * A name for something without an address, such as a parameter. A path that begins with it has a base
 * between `base` and its end, which only the caller understands.
 */
struct expression_local {
	const char *name;
	const struct type *type;
	uint64_t base;
};

struct expression_options {
	const struct expression_local *locals; /* before all variables; path_only */
	size_t local_count;
	const char *thread; /* whose thread-local variables: a TID or a name; NULL: not given */
	bool path_only;	    /* do not read pointers: only *path, type and size are wanted */
	/*
	 * Looks up a value of a future hit, such as an argument, instead of a variable. Sets the type,
	 * NULL if it is not known. 0, or -ENOENT with a sentence in why. The path then starts at that
	 * value, to which its base is added. NULL: names are variables.
	 */
	int (*value)(void *arg, const char *name, const struct type **type, char *why, size_t n);
	void *arg;
};

/*
 * Follows a path that begins with a value, to an address. 0, or -EFAULT: a pointer of the path is
 * null or cannot be read.
 */
int expression_path_follow(struct symbols *s, const struct expression_path *path, uint64_t value,
			   uint64_t *out);

/* 0 or -errno with *error: -ENOENT unknown name, -EFAULT unreadable pointer, -EINVAL others. */
int expression_resolve(struct symbols *s, const struct expression *e,
		       const struct expression_options *options, struct expression_place *out,
		       struct expression_error *error);

#endif
