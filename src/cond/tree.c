/* SPDX-License-Identifier: MIT */
/*
 * tree.c - recursive descent, one function for each level of C's grammar.
 *
 * The first error wins; after it the text has ended, so the functions need not check.
 */
#include "cond/tree.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cond/terms.h"
#include "cond/tree_path.h"

#define DEPTH_MAX 64

static struct tree_node *tree_expression(struct tree_parser *p);
static struct tree_node *tree_unary(struct tree_parser *p);

struct tree_node *tree_fail(struct tree_parser *p, int err, const char *where, const char *format,
			    ...)
{
	va_list args;

	if (p->err)
		return &p->nowhere;
	p->err = err;
	p->error->column = (int)(where - p->text) + 1;
	va_start(args, format);
	vsnprintf(p->error->text, sizeof(p->error->text), format, args);
	va_end(args);
	p->now = (struct token){ .kind = TOKEN_END, .start = "", .end = "" };
	return &p->nowhere;
}

void tree_next(struct tree_parser *p)
{
	if (p->err)
		return;
	p->after_value = p->now.kind == TOKEN_NAME || p->now.kind == TOKEN_NUMBER ||
			 p->now.kind == TOKEN_STRING || *p->now.start == ')' ||
			 *p->now.start == ']';
	p->end = p->now.end;
	token_read(p->end, p->lexing, &p->now);
}

void tree_lex_at(struct tree_parser *p, const char *at, enum token_names lexing)
{
	p->lexing = lexing;
	if (!p->err)
		token_read(at, lexing, &p->now);
}

struct tree_node *tree_node_new(struct tree_parser *p, enum tree_kind kind, const char *at,
				const struct tree_node *left)
{
	if (p->err)
		return &p->nowhere;
	struct tree_node *n = &p->out->nodes[p->out->node_count++];
	int start = (int)(at - p->text);

	*n = (struct tree_node){
		.kind = kind, .column = start + 1, .start = left ? left->start : start, .left = left
	};
	return n;
}

struct tree_node *tree_node_end(struct tree_parser *p, struct tree_node *n)
{
	if (!p->err)
		n->end = (int)(p->end - p->text);
	return n;
}

const char *tree_keep(struct tree_parser *p, const char *text, size_t n)
{
	char *copy = p->out->strings + p->out->string_bytes;

	if (p->err)
		return "";
	memcpy(copy, text, n);
	copy[n] = '\0';
	p->out->string_bytes += n + 1;
	return copy;
}

/* The sign of an operator that other languages write as a word; NULL: the word is not one. */
static const char *operator_named(const char *word)
{
	static const char *const words[][2] = { { "or", "||" }, { "and", "&&" }, { "is", "==" },
						{ "eq", "==" }, { "ne", "!=" },	 { "lt", "<" },
						{ "gt", ">" },	{ "le", "<=" },	 { "ge", ">=" },
						{ "xor", "^" }, { "mod", "%" } };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcasecmp(words[i][0], word))
			return words[i][1];
	return NULL;
}

/* A word where only an operator can be. */
static void wrong_word(struct tree_parser *p)
{
	const struct token *t = &p->now;
	const char *sign = operator_named(t->text);

	if (sign)
		tree_fail(p, -EINVAL, t->start, "unknown word '%s'; did you mean %s?", t->text,
			  sign);
	else
		tree_fail(p, -EINVAL, t->start, "expected an operator or the end, not '%s'",
			  t->text);
}

static void tree_expected(struct tree_parser *p, const char *what)
{
	const struct token *t = &p->now;

	if (p->names && p->after_value && t->kind == TOKEN_NAME && strcmp(t->text, "in") != 0)
		wrong_word(p);
	else if (t->kind == TOKEN_WRONG)
		tree_fail(p, -EINVAL, t->start, "%s", t->wrong);
	else if (t->kind == TOKEN_END)
		tree_fail(p, -EINVAL, t->start, "expected %s, but the condition ends", what);
	else
		tree_fail(p, -EINVAL, t->start, "expected %s, not '%.*s'", what,
			  (int)(t->end - t->start), t->start);
}

static bool is_sign(const struct tree_parser *p, const char *sign)
{
	return p->now.kind == TOKEN_SIGN && !strcmp(p->now.text, sign);
}

static bool take_sign(struct tree_parser *p, const char *sign)
{
	if (!is_sign(p, sign))
		return false;
	tree_next(p);
	return true;
}

static void need_sign(struct tree_parser *p, const char *sign, const char *what)
{
	if (!take_sign(p, sign))
		tree_expected(p, what);
}

/* u8, uint8_t ... s64: true and the type when the name is one. */
static bool type_of(const char *name, uint8_t *size, bool *is_signed)
{
	char digits[4] = "";
	char c;

	if (sscanf(name, "uint%2[0-9]_%c", digits, &c) == 2 ||
	    sscanf(name, "u%2[0-9]", digits) == 1)
		*is_signed = false;
	else if (sscanf(name, "int%2[0-9]_%c", digits, &c) == 2 ||
		 sscanf(name, "s%2[0-9]", digits) == 1)
		*is_signed = true;
	else
		return false;
	*size = !strcmp(digits, "8")  ? 1 :
		!strcmp(digits, "16") ? 2 :
		!strcmp(digits, "32") ? 4 :
		!strcmp(digits, "64") ? 8 :
					0;
	return *size != 0;
}

/*
 * A word of the language, that no name hides. `count` and `str` are such words before a '(' alone.
 */
static bool is_reserved(const struct tree_parser *p, const char *word, const char *after)
{
	uint8_t size;
	bool is_signed;

	if ((!strcmp(word, "count") || !strcmp(word, "str")) &&
	    after[strspn(after, " \t\n")] != '(')
		return false;
	if (p->names && p->names->hides && p->names->hides(p->names->arg, word))
		return false;
	return cond_name_find(word) || type_of(word, &size, &is_signed) || !strcmp(word, "in") ||
	       !strcmp(word, "thread") || !strcmp(word, "str") || !strcmp(word, "count");
}

/*
 * A path that begins at the token; `at` is the token, or what follows its &. NULL: the text there
 * is the language's own, or wrong in a way that its rules state better. Then nothing was read.
 */
static struct tree_node *take_path(struct tree_parser *p, const char *at, bool is_address)
{
	const struct tree_parser before = *p;
	size_t node_count = p->out->node_count;
	size_t string_bytes = p->out->string_bytes;
	bool is_name = *at != '(' && *at != '*';

	tree_lex_at(p, at, TOKEN_QUALIFIED);
	struct tree_node *path = tree_path(p);
	if (p->err && is_name)
		return path;
	const struct tree_node *first = p->err ? NULL : tree_first(path);
	bool is_plain = first && first == path && !first->scope;

	/* `(new)` and `*(u32 *)new` are the language's; `&name` is, too: of functions as well. */
	if (!first || (!first->scope && is_reserved(p, first->text, p->text + first->end)) ||
	    (is_plain && (is_address || *at == '('))) {
		*p = before;
		memset(p->error, 0, sizeof(*p->error));
		p->out->node_count = node_count;
		p->out->string_bytes = string_bytes;
		return NULL;
	}
	struct tree_node *n = tree_node_new(p, TREE_PATH, p->text + path->start, path);
	n->is_address = is_address;
	tree_node_end(p, n);
	tree_lex_at(p, p->end, TOKEN_WORDS);
	p->after_value = true;
	return n;
}

/* `not x`: a name would have an operator behind it. */
static bool is_not(const char *word, const char *after)
{
	const char *next = after + strspn(after, " \t\n");

	return !strcmp(word, "not") &&
	       (isalpha((unsigned char)*next) || *next == '_' || *next == '(');
}

/* The same, where a value is expected. */
static struct tree_node *take_name(struct tree_parser *p)
{
	const struct token *t = &p->now;
	const char *at = t->start;

	if (!p->names || t->kind == TOKEN_END || t->kind == TOKEN_NUMBER)
		return NULL;
	if (is_not(t->text, t->end))
		return tree_fail(p, -EINVAL, at, "unknown word 'not'; did you mean !?");
	/* conn.c:count may begin like a term. */
	bool is_longer = *t->end == '.' || !strncmp(t->end, "->", 2) || !strncmp(t->end, "::", 2);
	if (t->kind == TOKEN_NAME && !is_longer && is_reserved(p, t->text, t->end))
		return NULL;
	if (*at == '&' && t->kind == TOKEN_SIGN && t->len == 1) {
		at++;
		while (isspace((unsigned char)*at))
			at++;
		return isalpha((unsigned char)*at) || *at == '_' ? take_path(p, at, true) : NULL;
	}
	return token_is_name_start(*at) || !strncmp(at, "::", 2) || *at == '(' || *at == '*' ?
		       take_path(p, at, false) :
		       NULL;
}

/*
 * The name of a symbol, which n gets. In quotes: what is not a plain name, as in
 * "libc.so.6:malloc".
 */
static struct tree_node *take_symbol(struct tree_parser *p, struct tree_node *n)
{
	if (p->now.kind != TOKEN_NAME && p->now.kind != TOKEN_STRING) {
		tree_expected(p, "the name of a symbol");
		return n;
	}
	n->column = (int)(p->now.start - p->text) + 1;
	n->text = tree_keep(p, p->now.text, p->now.len);
	tree_next(p);
	return tree_node_end(p, n);
}

/* Behind an opening parenthesis: is this a cast? Then the type is taken. */
static bool take_type(struct tree_parser *p, struct tree_node *n)
{
	if (p->now.kind != TOKEN_NAME || !type_of(p->now.text, &n->size, &n->is_signed))
		return false;
	tree_next(p);
	return true;
}

static bool take_float(struct tree_parser *p, struct tree_node *n)
{
	const bool is_float = !strcmp(p->now.text, "f32") || !strcmp(p->now.text, "float");

	if (p->now.kind != TOKEN_NAME ||
	    (!is_float && strcmp(p->now.text, "f64") != 0 && strcmp(p->now.text, "double") != 0))
		return false;
	n->size = is_float ? 4 : 8;
	n->is_float = true;
	tree_next(p);
	return true;
}

/* *(type *)address */
static struct tree_node *tree_load(struct tree_parser *p, const char *at)
{
	struct tree_node *n = tree_node_new(p, TREE_LOAD, at, NULL);

	need_sign(p, "(", "'(' and a type, as in *(u32 *)address");
	if (!take_type(p, n) && !take_float(p, n))
		tree_expected(p, "a type: u8 u16 u32 u64 s8 s16 s32 s64 f32 f64");
	need_sign(p, "*", "'*' after the type of a load");
	need_sign(p, ")", "')' after the type of a load");
	n->left = tree_unary(p);
	return tree_node_end(p, n);
}

/* == or != and a string, which n gets. */
static void take_string(struct tree_parser *p, struct tree_node *n)
{
	n->is_negative = is_sign(p, "!=");
	if (!take_sign(p, "==") && !take_sign(p, "!="))
		tree_expected(p, "== or != and a string");
	if (p->now.kind != TOKEN_STRING)
		tree_expected(p, "a string in double quotes");
	n->column = (int)(p->now.start - p->text) + 1;
	n->len = p->now.len;
	n->text = tree_keep(p, p->now.text, p->now.len);
	if (n->kind == TREE_THREAD && n->len >= COND_THREAD_NAME)
		tree_fail(p, -EINVAL, p->now.start, "a thread's name has at most 15 bytes");
	if (n->kind == TREE_STRINGS && !n->len && !p->err)
		tree_fail(p, -EINVAL, p->now.start, "cannot compare with an empty string");
	tree_next(p);
}

static struct tree_node *tree_thread(struct tree_parser *p, const char *at)
{
	struct tree_node *n = tree_node_new(p, TREE_THREAD, at, NULL);

	take_string(p, n);
	return tree_node_end(p, n);
}

static struct tree_node *tree_strings(struct tree_parser *p, const char *at)
{
	struct tree_node *n = tree_node_new(p, TREE_STRINGS, at, NULL);

	need_sign(p, "(", "'(' after str");
	n->left = tree_expression(p);
	need_sign(p, ")", "')' after the pointer");
	take_string(p, n);
	return tree_node_end(p, n);
}

static struct tree_node *tree_count(struct tree_parser *p, const char *at)
{
	struct tree_node *n = tree_node_new(p, TREE_COUNT, at, NULL);

	need_sign(p, "(", "'(' after count");
	if (p->now.kind != TOKEN_NAME)
		tree_expected(p, "the name of an event");
	n->column = (int)(p->now.start - p->text) + 1;
	n->text = tree_keep(p, p->now.text, p->now.len);
	tree_next(p);
	need_sign(p, ")", "')' after the event");
	return tree_node_end(p, n);
}

/* A word of the language. */
static struct tree_node *tree_word(struct tree_parser *p)
{
	const struct cond_name *name = cond_name_find(p->now.text);
	const struct token word = p->now;

	tree_next(p);
	if (!name && !strcmp(word.text, "thread"))
		return tree_thread(p, word.start);
	if (!name && !strcmp(word.text, "str"))
		return tree_strings(p, word.start);
	if (!name && !strcmp(word.text, "count"))
		return tree_count(p, word.start);
	if (!name)
		return tree_fail(
			p, -EINVAL, word.start,
			"unknown term '%s'; &%s is the address of a symbol, see trapline-condition(7)",
			word.text, word.text);
	struct tree_node *n =
		tree_node_new(p, name->is_register ? TREE_REG : TREE_TERM, word.start, NULL);
	n->number = name->number;
	n->text = name->name;
	return tree_node_end(p, n);
}

static struct tree_node *tree_cast(struct tree_parser *p, struct tree_node *n)
{
	if (is_sign(p, "*"))
		tree_expected(p, "')': a pointer type is possible in *(type *)address only");
	need_sign(p, ")", "')' after the type");
	n->left = tree_unary(p);
	return tree_node_end(p, n);
}

static struct tree_node *tree_primary(struct tree_parser *p)
{
	const char *at = p->now.start;
	struct tree_node *n;

	if (p->now.kind == TOKEN_NUMBER) {
		n = tree_node_new(p, TREE_NUMBER, at, NULL);
		n->number = p->now.number;
		n->is_unsigned = p->now.is_unsigned;
		n->is_float = p->now.is_float;
		n->size = p->now.is_single ? 4 : 8;
		tree_next(p);
		return tree_node_end(p, n);
	}
	if (p->now.kind == TOKEN_NAME)
		return tree_word(p);
	if (!take_sign(p, "(")) {
		tree_expected(p, "a number, a term or '('");
		return &p->nowhere;
	}
	struct tree_node type = { 0 };
	if (take_type(p, &type) || take_float(p, &type)) {
		n = tree_node_new(p, TREE_NARROW, at, NULL);
		n->size = type.size;
		n->is_signed = type.is_signed;
		n->is_float = type.is_float;
		return tree_cast(p, n);
	}
	n = tree_expression(p);
	need_sign(p, ")", "')'");
	if (!p->err)
		n->start = (int)(at - p->text);
	return tree_node_end(p, n);
}

static struct tree_node *tree_sign(struct tree_parser *p)
{
	static const struct {
		char sign;
		uint8_t op;
	} signs[] = { { '!', COND_NOT }, { '-', COND_NEG }, { '~', COND_INV } };
	const char *at = p->now.start;

	tree_next(p);
	if (*at == '&')
		return take_symbol(p, tree_node_new(p, TREE_SYMBOL, at, NULL));
	if (*at == '*')
		return tree_load(p, at);
	if (*at == '+')
		return tree_unary(p);
	struct tree_node *n = tree_node_new(p, TREE_UNARY, at, NULL);
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (signs[i].sign == *at)
			n->op = signs[i].op;
	n->left = tree_unary(p);
	return tree_node_end(p, n);
}

static struct tree_node *tree_unary(struct tree_parser *p)
{
	if (++p->depth > DEPTH_MAX)
		tree_fail(p, -E2BIG, p->now.start, "the condition is nested too deep");
	struct tree_node *n = take_name(p);
	if (!n)
		n = p->now.kind == TOKEN_SIGN && p->now.len == 1 && strchr("&*+-!~", *p->now.text) ?
			    tree_sign(p) :
			    tree_primary(p);
	p->depth--;
	return n;
}

/* Binary operators, weakest first; a level's operators bind alike, from the left. */
static const struct {
	const char *sign;
	uint8_t op;
	uint8_t level;
} binaries[] = {
	{ "|", COND_OR, 0 },  { "^", COND_XOR, 1 },  { "&", COND_AND, 2 },  { "==", COND_EQ, 3 },
	{ "!=", COND_NE, 3 }, { "<", COND_LT, 4 },   { "<=", COND_LE, 4 },  { ">", COND_GT, 4 },
	{ ">=", COND_GE, 4 }, { "<<", COND_SHL, 5 }, { ">>", COND_SHR, 5 }, { "+", COND_ADD, 6 },
	{ "-", COND_SUB, 6 }, { "*", COND_MUL, 7 },  { "/", COND_DIV, 7 },  { "%", COND_MOD, 7 },
};
#define LEVEL_RELATION 4
#define LEVELS 8

static int binary_at(const struct tree_parser *p, uint32_t level)
{
	for (size_t i = 0; i < sizeof(binaries) / sizeof(binaries[0]); i++)
		if (binaries[i].level == level && is_sign(p, binaries[i].sign))
			return (int)i;
	return -1;
}

static struct tree_node *tree_binary(struct tree_parser *p, uint32_t level)
{
	if (level == LEVELS)
		return tree_unary(p);
	struct tree_node *n = tree_binary(p, level + 1);

	for (;;) {
		int found = binary_at(p, level);
		const char *at = p->now.start;

		if (found < 0 && level == LEVEL_RELATION && p->now.kind == TOKEN_NAME &&
		    !strcmp(p->now.text, "in")) {
			tree_next(p);
			n = take_symbol(p, tree_node_new(p, TREE_IN, at, n));
			continue;
		}
		if (found < 0 || p->err)
			return n;
		tree_next(p);
		n = tree_node_new(p, TREE_BINARY, at, n);
		n->op = binaries[found].op;
		n->right = tree_binary(p, level + 1);
		tree_node_end(p, n);
	}
}

static struct tree_node *tree_logic(struct tree_parser *p, enum tree_kind kind)
{
	bool is_or = kind == TREE_OR;
	struct tree_node *n = is_or ? tree_logic(p, TREE_AND) : tree_binary(p, 0);
	const char *at = p->now.start;

	while (take_sign(p, is_or ? "||" : "&&")) {
		n = tree_node_new(p, kind, at, n);
		n->right = is_or ? tree_logic(p, TREE_AND) : tree_binary(p, 0);
		tree_node_end(p, n);
		at = p->now.start;
	}
	return n;
}

static struct tree_node *tree_expression(struct tree_parser *p)
{
	if (++p->depth > DEPTH_MAX)
		tree_fail(p, -E2BIG, p->now.start, "the condition is nested too deep");
	struct tree_node *n = tree_logic(p, TREE_OR);
	const char *at = p->now.start;

	if (take_sign(p, "?")) {
		n = tree_node_new(p, TREE_CHOICE, at, n);
		n->right = tree_expression(p);
		need_sign(p, ":", "':' of ?:");
		n->other = tree_expression(p);
		tree_node_end(p, n);
	}
	p->depth--;
	return n;
}

/*
 * One block of memory has the tree. Each node, and each string, is made of some characters of the
 * text; a path has one node more.
 */
static struct expression *tree_new(const char *text)
{
	size_t len = strlen(text);
	size_t nodes = 2 * (len + 1);
	struct expression *t =
		calloc(1, sizeof(*t) + nodes * sizeof(struct tree_node) + 3 * (len + 1));

	if (!t)
		return NULL;
	t->nodes = (void *)(t + 1);
	char *source = (void *)(t->nodes + nodes);
	memcpy(source, text, len);
	t->source = source;
	t->strings = source + len + 1;
	return t;
}

static int tree_finish(struct tree_parser *p, struct expression **out)
{
	if (p->err)
		tree_free(p->out);
	else
		*out = p->out;
	return p->err;
}

int tree_of_condition(const char *text, const struct tree_names *names, struct expression **out,
		      struct expression_error *error)
{
	struct tree_parser p = { .text = text, .names = names, .error = error };

	memset(error, 0, sizeof(*error));
	if (strlen(text) > COND_TEXT_MAX) {
		tree_fail(&p, -E2BIG, text, "the condition has more than 4096 characters");
		return p.err;
	}
	p.out = tree_new(text);
	if (!p.out)
		return -ENOMEM;
	p.end = text;
	tree_lex_at(&p, text, TOKEN_WORDS);
	p.out->root = tree_expression(&p);
	if (p.now.kind != TOKEN_END)
		tree_expected(&p, "an operator or the end");
	return tree_finish(&p, out);
}

int tree_of_place(const char *text, struct expression **out, struct expression_error *error)
{
	struct tree_parser p = { .text = text, .error = error };

	memset(error, 0, sizeof(*error));
	if (strnlen(text, TREE_PLACE_MAX + 1) > TREE_PLACE_MAX) {
		tree_fail(&p, -EINVAL, text, "longer than %d characters", TREE_PLACE_MAX);
		return p.err;
	}
	p.out = tree_new(text);
	if (!p.out)
		return -ENOMEM;
	p.end = text;
	tree_lex_at(&p, text, TOKEN_PLACES);
	tree_place(&p);
	return tree_finish(&p, out);
}

void tree_free(struct expression *e)
{
	free(e);
}
