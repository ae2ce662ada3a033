/* SPDX-License-Identifier: MIT */
/*
 * condition_names.h - names of variables in conditions.
 *
 * The language of conditions (trapline-condition(7)) knows numbers, registers and loads from
 * memory. `conn->state == CLOSING && new > server.maxclients` is written in it as
 * `(*(u32 *)((*(u64 *)(0x5581...)+4))) == 2 && (s32)new > (*(s32 *)(0x5583...))`: pointers are
 * followed anew at each hit. new and old take the sign, or the bits, of what is watched.
 */
#ifndef REPORT_CONDITION_NAMES_H
#define REPORT_CONDITION_NAMES_H

#include "expression.h"
#include "signature.h"
#include "value.h"

struct condition_names {
	struct symbols *symbols; /* NULL: there is no process yet; only the form is looked at */
	const char *thread;	 /* whose thread-local variables; NULL: not said */
	struct value_view view;	 /* of what is watched; type NULL: not known */
	uint64_t len;		 /* bytes watched */
	/* Of the function that is broken on: its parameters have names too. NULL: none. */
	const struct signature *signature;
	/* Does the language itself know this word? */
	bool (*is_term)(const char *word);
};

struct condition_text {
	char *text;
	unsigned short *columns; /* for each character of text its column in the original, from 1 */
	bool has_parameters; /* it holds for functions with the same parameters only */
};

/* 0, or -errno with *error. *out is released by condition_text_free(). */
int condition_names(const struct condition_names *names, const char *text,
		    struct condition_text *out, struct expression_error *error);
void condition_text_free(struct condition_text *text);

/*
 * A condition for a bit-field: true when the field changed, or nothing did. Writes to other bits
 * of its bytes are none of its hits. user, if not NULL, must hold too, and stands in it from the
 * second character on. NULL: none is needed, or no memory. To be freed.
 */
char *condition_for_bits(const struct value_view *view, uint64_t len, const char *user);

#endif
