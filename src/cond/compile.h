/* SPDX-License-Identifier: MIT */
/* compile.h - from the text of a condition, or its tree, to its steps. */
#ifndef COND_COMPILE_H
#define COND_COMPILE_H

#include <trapline/condition.h>

#include "cond/steps.h"
#include "cond/tree.h"

struct trapline_condition {
	struct condition ir;
};

/* What the names of a condition are. */
struct cond_names {
	struct tree_names words;
	/*
	 * Writes a path, or a term of the language that has a type here. Returns the kind of the
	 * number, or -errno with *error. NULL: terms are as the language has them.
	 */
	int (*write)(void *arg, const struct tree_node *n, struct steps *s,
		     struct expression_error *error);
	/*
	 * Writes whether the text at a path has so many bytes, where it has no NUL behind it. 1;
	 * 0: nothing is written; or -errno with *error. NULL: all texts have a NUL.
	 */
	int (*write_has)(void *arg, const struct tree_node *path, uint64_t bytes, struct steps *s,
			 struct expression_error *error);
	const struct trapline_condition_opts *opts; /* of symbols and events; may be NULL */
	/* of the watched value: a hit that changes others alone is not reported 0: all */
	uint64_t bits;
	void *arg;
};

/* The steps of a tree; root NULL: only those of the bits. 0, -EINVAL or -E2BIG with *error. */
int cond_compile(const struct tree_node *root, const struct cond_names *names,
		 struct condition *out, struct expression_error *error);

/* The same for a text, by the names of the library. */
int cond_parse(const char *text, const struct trapline_condition_opts *opts, struct condition *out,
	       struct trapline_condition_error *error);

/* Line and column of an error in a text, and as much of its reason as there is room for. */
void cond_error_place(const char *text, const struct expression_error *from,
		      struct trapline_condition_error *out);

#endif
