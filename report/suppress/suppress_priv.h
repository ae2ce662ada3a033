/* SPDX-License-Identifier: MIT */
/* suppress_priv.h - a suppression as suppress_parse.c makes it and suppress.c matches it. */
#ifndef SUPPRESS_PRIV_H
#define SUPPRESS_PRIV_H

#include "report/suppress/suppress.h"

enum suppress_kind {
	SUPPRESS_ANY_FRAME, /* race: */
	SUPPRESS_TOP,	    /* race_top: */
	SUPPRESS_LIBRARY,   /* called_from_lib: */
	SUPPRESS_STACK,	    /* a block of valgrind's */
};

enum suppress_step_kind {
	SUPPRESS_FUNCTION,
	SUPPRESS_OBJECT,
	SUPPRESS_SOURCE,
	SUPPRESS_FRAMES, /* ... */
};

struct suppress_step {
	enum suppress_step_kind kind;
	const char *pattern;
};

#define SUPPRESS_STEPS 24 /* as many as valgrind takes */

struct suppress_rule {
	struct suppression told;
	enum suppress_kind kind;
	bool is_heap;  /* of errors of the heap, not of races */
	char *pattern; /* `*` for anything, whole name; of a line */
	struct suppress_step steps[SUPPRESS_STEPS];
	size_t step_count;
};

struct suppressions {
	struct suppress_rule **rules;
	size_t count;
	size_t capacity;
	size_t passed_over;
	char **kept; /* strings that rules point into */
	size_t kept_count;
	size_t kept_capacity;
};

#endif
