/* SPDX-License-Identifier: MIT */
/* tree_priv.h - the parser, as tree.c has it for operators, and tree_path.c for paths. */
#ifndef COND_TREE_PRIV_H
#define COND_TREE_PRIV_H

#include "cond/lex.h"
#include "cond/tree.h"

struct tree_parser {
	const char *text;
	struct token now;
	enum token_names lexing;
	bool after_value; /* the token before now ends a value */
	const char *end;  /* of the token before now */
	struct expression *out;
	const struct tree_names *names; /* NULL: no paths */
	struct expression_error *error;
	unsigned int depth;
	unsigned int path_depth;
	int err;
	struct tree_node nowhere; /* returned after an error */
};

/* The first error stays. It ends the text, so that the functions need not check for errors. */
__attribute__((format(printf, 4, 5))) struct tree_node *
tree_fail(struct tree_parser *p, int err, const char *where, const char *format, ...);

void tree_next(struct tree_parser *p);
/* Reads the token at a location again, by other rules for names. */
void tree_lex_at(struct tree_parser *p, const char *at, enum token_names lexing);
/* A node whose operator, or first character, is at an offset in the text. */
struct tree_node *tree_node_new(struct tree_parser *p, enum tree_kind kind, const char *at,
				const struct tree_node *left);
/* The node ends where the last token does. */
struct tree_node *tree_node_end(struct tree_parser *p, struct tree_node *n);
const char *tree_keep(struct tree_parser *p, const char *text, size_t n);

#endif
