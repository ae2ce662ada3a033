/* SPDX-License-Identifier: MIT */
/* parse.h - from the text of a condition to its steps. */
#ifndef COND_PARSE_H
#define COND_PARSE_H

#include <trapline/condition.h>

#include "cond/ir.h"

struct trapline_condition {
	struct condition ir;
};

/* 0, -EINVAL or -E2BIG; error is filled on failure. opts may be NULL. */
int cond_parse(const char *text, const struct trapline_condition_opts *opts, struct condition *out,
	       struct trapline_condition_error *error);

/* lex.c */
enum token_kind {
	TOKEN_END,
	TOKEN_NUMBER,
	TOKEN_NAME,
	TOKEN_STRING,
	TOKEN_SIGN,
	TOKEN_WRONG
};

struct token {
	enum token_kind kind;
	const char *start;
	uint32_t len;
	uint64_t number;
	int is_unsigned;
	char text[COND_STRING_MAX + 1]; /* of a name or string, NUL-terminated */
	const char *wrong;		/* why TOKEN_WRONG */
};

/* The token at *at, which moves behind it. */
void token_next(const char **at, struct token *out);

#endif
