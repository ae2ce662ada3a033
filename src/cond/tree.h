/* SPDX-License-Identifier: MIT */
/*
 * tree.h - the text of an expression as a tree: a condition, or a location in memory.
 *
 * A condition is C's expression syntax on numbers; trapline-condition(7) describes it. Its operands
 * may be paths, if the caller knows names, and a location is one path:
 *
 *   place   := path ['+' number | '-' number] [':' length]
 *   path    := '*' path | '(' type '*' ... ')' path | postfix
 *   postfix := primary { '.' member | '->' member | '[' index ']' }
 *   primary := '(' path ['+' number | '-' number] ')' | number
 *              | [file ':' | object ':'] name { '::' name }
 *
 * In a condition, a path has no sum inside. Where both readings are possible, the path wins.
 */
#ifndef COND_TREE_H
#define COND_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cond/ir.h"

struct expression_error {
	int column; /* from 1; 0: the whole */
	char text[500];
};

enum tree_kind {
	/* In paths: */
	TREE_NAME,   /* text, scope */
	TREE_NUMBER, /* number: an address, or an index; in conditions any */
	TREE_CAST,   /* left, text is the type, number the stars */
	TREE_DEREF,  /* left */
	TREE_MEMBER, /* left, text */
	TREE_ARROW,  /* left, text */
	TREE_INDEX,  /* left, right, is_negative */
	TREE_SUM,    /* left, number, is_negative: to a pointer */
	/* In conditions: */
	TREE_PATH,    /* left, is_address: of what & is written before */
	TREE_TERM,    /* number: enum cond_term */
	TREE_REG,     /* number: a DWARF register; text: its name */
	TREE_NARROW,  /* left, size, is_signed, is_float: (u32)left */
	TREE_LOAD,    /* left, size, is_signed, is_float: *(u32 *)left */
	TREE_SYMBOL,  /* text: &text */
	TREE_IN,      /* left, text */
	TREE_UNARY,   /* left, op */
	TREE_BINARY,  /* left, right, op */
	TREE_AND,     /* left, right */
	TREE_OR,      /* left, right */
	TREE_CHOICE,  /* left ? right : other */
	TREE_STRINGS, /* left, text, len, is_negative: str(left) == "text" */
	TREE_THREAD,  /* text, len, is_negative: thread == "text" */
	TREE_COUNT,   /* text: count(text) */
};

struct tree_node {
	enum tree_kind kind;
	uint8_t op; /* enum cond_op */
	uint8_t size;
	bool is_signed;
	bool is_negative;
	bool is_address;
	/* of its operator or first character, from 1; of a text that is compared or looked up */
	int column;
	int start; /* its characters in the source, with parentheses around it */
	int end;
	uint32_t len;
	const struct tree_node *left;
	const struct tree_node *right;
	const struct tree_node *other;
	const char *text;
	const char *scope; /* of a name: file or object; NULL: none */
	uint64_t number;
	bool is_unsigned;
	bool is_float; /* of size bytes; TREE_NUMBER: the bits of a double */
};

struct expression {
	const struct tree_node *root;
	/* What is behind a location: */
	uint64_t offset;
	bool has_offset;
	bool is_negative;
	uint64_t length; /* 0: not given */
	const char *source;
	struct tree_node *nodes;
	size_t node_count;
	char *strings;
	size_t string_bytes;
};

#define TREE_PLACE_MAX 512 /* characters of a location */

/* True if a word of the language is a name here, such as that of a parameter. */
typedef bool (*tree_hides)(void *arg, const char *word);

struct tree_names {
	tree_hides hides; /* NULL: no word is */
	void *arg;
};

/*
 * 0, or with *error: -EINVAL, -E2BIG; or -ENOMEM. names NULL: all names are terms of the language.
 * *out is released by tree_free().
 */
int tree_of_condition(const char *text, const struct tree_names *names, struct expression **out,
		      struct expression_error *error);
int tree_of_place(const char *text, struct expression **out, struct expression_error *error);
void tree_free(struct expression *e);

#endif
