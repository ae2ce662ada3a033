/* SPDX-License-Identifier: MIT */
/* suppress_priv.h - a suppression as suppress_parse.c makes it and suppress.c matches it. */
#ifndef SUPPRESS_PRIV_H
#define SUPPRESS_PRIV_H

#include "report/suppress/suppress.h"

enum suppress_kind {
	SUPPRESS_ANY_FRAME, /* race: */
	SUPPRESS_TOP,	    /* race_top: */
	SUPPRESS_LIBRARY,   /* called_from_lib: */
};

struct suppress_rule {
	struct suppression told;
	enum suppress_kind kind;
	enum suppress_tool tool;
	char *pattern; /* `*` for anything, whole name */
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
