/* SPDX-License-Identifier: MIT */
/* lex.h - the words of a text. */
#ifndef COND_LEX_H
#define COND_LEX_H

#include <stdbool.h>
#include <stdint.h>

#include "cond/ir.h"

enum token_kind {
	TOKEN_END,
	TOKEN_NUMBER,
	TOKEN_NAME,
	TOKEN_STRING,
	TOKEN_SIGN,
	TOKEN_WRONG
};

/* What a name is. */
enum token_names {
	TOKEN_WORDS,	 /* letters and digits */
	TOKEN_QUALIFIED, /* `ns::Class<T>::name`, before more text: `a<b` is a comparison */
	TOKEN_PLACES,	 /* the same where nothing can be compared: `Class<T>` too */
};

struct token {
	enum token_kind kind;
	const char *start;
	const char *end;
	uint32_t len; /* of text */
	uint64_t number;
	bool is_unsigned;
	bool is_float;			/* number has the bits of a double */
	bool is_single;			/* and is a float: 1.5f */
	bool is_too_large;		/* why a number is TOKEN_WRONG */
	char text[COND_STRING_MAX + 1]; /* of a word, sign or string, NUL-terminated */
	const char *wrong;		/* why TOKEN_WRONG */
};

/* The first token of the text. */
void token_read(const char *text, enum token_names names, struct token *out);

/* True if a qualified name can begin with the character. */
bool token_is_name_start(char c);

/* Behind the letters, digits and _ of a word. */
const char *token_word_end(const char *text);

/*
 * The ':' of `conn.c:count`, `libc.so.6:environ`: what is before a single ':' that a name follows.
 * A length follows another ':', one with a digit behind it. NULL: the text begins with none.
 */
const char *token_scope_end(const char *text, enum token_names names);

#endif
