/* SPDX-License-Identifier: MIT */
/*
 * condition_names.h - names of variables in conditions.
 *
 * The language of conditions (trapline-condition(7)) knows numbers, registers and loads from
 * memory. `conn->state == CLOSING && new > server.maxclients` is written in it as
 * `(*(u32 *)((*(u64 *)(0x5581...)+4))) == 2 && (s32)new > (*(s32 *)(0x5583...))`: pointers are
 * followed again at each hit. new and old have the sign, or the bits, of the watched type.
 */
#ifndef REPORT_LANG_CONDITION_NAMES_H
#define REPORT_LANG_CONDITION_NAMES_H

#include "report/lang/expression.h"
#include "report/lang/signature.h"
#include "report/lang/value.h"

struct condition_names {
	struct symbols *symbols; /* NULL: there is no process yet, and only the form is checked */
	const char *thread;	 /* whose thread-local variables; NULL: not given */
	struct value_view view;	 /* of the watched bytes; type NULL: not known */
	uint64_t len;		 /* bytes watched */
	/* Of the function with the breakpoint, whose parameters are names too. NULL: none. */
	const struct signature *signature;
	/* True if the word is one of the language. */
	bool (*is_term)(const char *word);
};

struct condition_text {
	char *text;
	unsigned short *columns; /* for each character of text its column in the original, from 1 */
	bool has_parameters;	 /* it is valid only for functions with the same parameters */
};

/* 0, or -errno with *error. *out is released by condition_text_free(). */
int condition_names(const struct condition_names *names, const char *text,
		    struct condition_text *out, struct expression_error *error);
void condition_text_free(struct condition_text *text);

/*
 * A condition for a bit-field: true if the field changed, or nothing changed. It rejects writes to
 * other bits of its bytes. user, if not NULL, must be true too, and begins at the second character of
 * the text. NULL: no condition is needed, or out of memory. To be freed.
 */
char *condition_for_bits(const struct value_view *view, uint64_t len, const char *user);

#endif
