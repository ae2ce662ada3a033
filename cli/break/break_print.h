/* SPDX-License-Identifier: MIT */
/* break_print.h - --print TEXT and --by EXPR: values of a hit as an editor's logpoint has them. */
#ifndef CLI_BREAK_BREAK_PRINT_H
#define CLI_BREAK_BREAK_PRINT_H

#include "cli/break/break_calls.h"
#include "cli/observe/hit_template.h"
#include "cli/observe/observe_settings.h"

/* A text, and what its names mean at each site. */
struct break_text {
	struct hit_template *template; /* NULL: not wanted */
	struct hit_bound **bound;      /* by index of sites */
};

struct break_print {
	struct break_text line; /* of --print */
	struct break_text key;	/* of --by */
	size_t count;		/* of sites */
};

/* Takes the options apart, before there is a process. 0 or an exit status, line printed. */
int break_print_begin(struct break_print *p, const struct observe_settings *set);
bool break_print_is_wanted(const struct break_print *p);
/* For each site in turn, of count. 0 or an exit status, line printed. */
int break_print_bind(struct break_print *p, const struct observe_settings *set, struct symbols *s,
		     const struct code_sites *sites, size_t index,
		     const struct signature *signature);
/* What a hit needs of memory and of the stack. */
void break_print_needs(const struct break_print *p, size_t index, struct hit_copies *c,
		       uint32_t *texts, bool *wants_stack);
/* So many vector registers are wanted at a site. */
uint32_t break_print_vectors(const struct break_print *p, size_t index);
/* Sets the texts of a call. */
void break_print_call(const struct break_print *p, struct symbols *s,
		      const struct trapline_hit *hit, struct break_call *call);
void break_print_free(struct break_print *p);

#endif
