/* SPDX-License-Identifier: MIT */
/*
 * expression.h - memory as users name it: `server.clients`, `conn->state`, `table[3].next`,
 * `*(struct foo *)0x5581...`, `conn.c:count`, `ns::Class::total`. cond/tree.h has the grammar.
 *
 * Parsing needs no process. Resolving reads the pointers of the path as they are now.
 */
#ifndef REPORT_LANG_EXPRESSION_H
#define REPORT_LANG_EXPRESSION_H

#include "cond/tree.h"
#include "report/dwarf/symbols.h"
#include "report/dwarf/types.h"
#include "report/lang/signature.h"

/* 0, -EINVAL with *error, or -ENOMEM. *out is released by expression_free(). */
int expression_parse(const char *text, struct expression **out, struct expression_error *error);
void expression_free(struct expression *e);

/* `+8` and `:4` of the text. */
bool expression_has_offset(const struct expression *e);
uint64_t expression_length(const struct expression *e); /* 0: not given */

/*
 * Where a value is wanted, `n+1` is a sum to the reader and bytes of memory to the parser. The
 * reason to refuse it; NULL: the text means the same to both.
 */
const char *expression_no_value(const struct expression *e);

#define EXPRESSION_LINKS_MAX 8

/*
 * How to find the address again: start at base, and for each link read the pointer there and add
 * the link's offset.
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
	/* The parameter that the path begins with, and its base counts from; NULL: none. */
	const struct signature_value *parameter;
	const char *module;	  /* NULL: unknown */
	pid_t tid;		  /* whose thread-local variable it is; 0: it is not thread-local */
	bool is_address;	  /* the text is a number */
	bool is_first_of_several; /* local symbols of the same name */
	char through[200];	  /* `conn = 0x5581c0`, the pointers that were read; empty: none */
};

/* What a name is that is not a variable: a value of a future hit. */
struct expression_name {
	const struct type *type; /* NULL: not known */
	/* NULL: the value is a pointer, which is added to the base of the path. */
	const struct signature_value *parameter;
};

struct expression_options {
	const char *thread; /* whose thread-local variables: a TID or a name; NULL: not given */
	bool path_only;	    /* do not read pointers: only *path, type and size are wanted */
	/*
	 * Looks up a name before all variables; path_only. 0, or -ENOENT: it is a variable, or,
	 * with a sentence in why, nothing that is known. NULL: all names are variables.
	 */
	int (*name)(void *arg, const char *scope, const char *name, struct expression_name *out,
		    char *why, size_t n);
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
