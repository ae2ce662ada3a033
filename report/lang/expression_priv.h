/* SPDX-License-Identifier: MIT */
/* expression_priv.h - the tree that the parser makes and the resolver walks. */
#ifndef REPORT_LANG_EXPRESSION_PRIV_H
#define REPORT_LANG_EXPRESSION_PRIV_H

#include "report/lang/expression.h"

enum node_kind {
	NODE_NAME,   /* text, scope */
	NODE_NUMBER, /* number: an address, or an index */
	NODE_CAST,   /* left, text is the type, number the stars */
	NODE_DEREF,  /* left */
	NODE_MEMBER, /* left, text */
	NODE_ARROW,  /* left, text */
	NODE_INDEX,  /* left, right */
	NODE_ADD,    /* left, number, is_negative: to a pointer */
};

struct node {
	enum node_kind kind;
	int column; /* of its operator or first character, from 1 */
	int end;    /* where its text ends, from 0 */
	const struct node *left;
	const struct node *right;
	const char *text;
	const char *scope; /* of a name: file or object; NULL: none */
	uint64_t number;
	bool is_negative; /* of an index or a sum */
};

#define NODES_MAX 64
#define STRINGS_BYTES (2 * EXPRESSION_TEXT_MAX + 2 * NODES_MAX)

struct expression {
	const struct node *root;
	uint64_t offset;
	bool has_offset;
	bool is_negative;
	uint64_t length; /* 0: not given */
	char source[EXPRESSION_TEXT_MAX + 1];
	struct node nodes[NODES_MAX];
	size_t node_count;
	char strings[STRINGS_BYTES];
	size_t string_bytes;
};

#endif
