// SPDX-License-Identifier: MIT
/*
 * expression.c - parses an expression; see expression.h for the grammar.
 *
 * The parser is a recursive descent over the text. The first error stops it, so that its functions
 * do not check for errors before they continue.
 */
#include "report/lang/expression_priv.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 32
#define LENGTH_MAX 4096 /* bytes that can be watched, multiplexed */

struct parser {
	const char *text;
	const char *at;
	struct expression *out;
	struct expression_error *error;
	struct node nowhere; /* returned after an error */
	unsigned int depth;
	bool is_prefix; /* more text may follow: '<' is a comparison */
	int err;
};

__attribute__((format(printf, 3, 4))) static struct node *
expression_fail(struct parser *p, const char *where, const char *format, ...)
{
	va_list args;

	if (!p->err) {
		p->err = -EINVAL;
		p->error->column = (int)(where - p->text) + 1;
		va_start(args, format);
		vsnprintf(p->error->text, sizeof(p->error->text), format, args);
		va_end(args);
	}
	p->at = "";
	return &p->nowhere;
}

static struct node *expected(struct parser *p, const char *what)
{
	if (!*p->at)
		return expression_fail(p, p->err ? p->text : p->at,
				       "expected %s, but the text ends", what);
	return expression_fail(p, p->at, "expected %s, not '%.1s'", what, p->at);
}

static void skip_blanks(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

static bool take(struct parser *p, const char *sign)
{
	skip_blanks(p);
	size_t n = strlen(sign);
	if (strncmp(p->at, sign, n) != 0)
		return false;
	p->at += n;
	return true;
}

static struct node *node_new(struct parser *p, enum node_kind kind, const char *at,
			     const struct node *left)
{
	struct expression *e = p->out;

	if (p->err)
		return &p->nowhere;
	if (e->node_count == NODES_MAX)
		return expression_fail(p, at, "the expression has more than %d parts", NODES_MAX);
	struct node *n = &e->nodes[e->node_count++];
	*n = (struct node){ .kind = kind, .column = (int)(at - p->text) + 1, .left = left };
	return n;
}

static const char *expression_keep(struct parser *p, const char *text, size_t n)
{
	struct expression *e = p->out;

	if (e->string_bytes + n + 1 > STRINGS_BYTES) {
		expression_fail(p, text, "too long");
		return "";
	}
	char *copy = e->strings + e->string_bytes;
	memcpy(copy, text, n);
	copy[n] = 0;
	e->string_bytes += n + 1;
	return copy;
}

static bool is_name_start(char c)
{
	return isalpha((unsigned char)c) || c == '_' || c == '$' || (c & 0x80);
}

static bool is_name_char(char c)
{
	return is_name_start(c) || isdigit((unsigned char)c);
}

/* Behind `Map<int, Foo<2>>`, when text is at its '<'; NULL: the brackets do not close. */
static const char *template_end(const char *text)
{
	int depth = 0;

	for (; *text; text++) {
		depth += (*text == '<') - (*text == '>');
		if (!depth)
			return text + 1;
		if (strchr("=!&|?", *text))
			return NULL;
	}
	return NULL;
}

/* name, Class<T>::name, (anonymous namespace) apart. Returns its end; text when there is none. */
static const char *name_end(const struct parser *p, const char *text)
{
	const char *at = text;

	for (;;) {
		if (!is_name_start(*at))
			return text;
		while (is_name_char(*at))
			at++;
		const char *end = *at == '<' ? template_end(at) : NULL;
		if (end && (!p->is_prefix || (end[0] == ':' && end[1] == ':')))
			at = end;
		if (at[0] != ':' || at[1] != ':' || !is_name_start(at[2]))
			return at;
		at += 2;
	}
}

/*
 * `conn.c:count`, `libc.so.6:environ`: what stands before a single ':' that a name follows. A
 * length follows another ':', one with a digit behind it.
 */
static const char *expression_scope_end(const struct parser *p, const char *text)
{
	const char *at = text;
	bool has_dot = false;

	while (isalnum((unsigned char)*at) || (*at && strchr("_./+-$~@", *at))) {
		if (at[0] == '-' && at[1] == '>')
			return NULL;
		has_dot = has_dot || *at == '.';
		at++;
	}
	if (at == text || at[0] != ':' || !is_name_start(at[1]))
		return NULL;
	/* In a condition `a ? b : c` has colons too. */
	return p->is_prefix && !has_dot ? NULL : at;
}

static const char *take_word(struct parser *p, const char *what)
{
	skip_blanks(p);
	const char *end = name_end(p, p->at);
	const char *start = p->at;

	if (end == start) {
		expected(p, what);
		return "";
	}
	p->at = end;
	return expression_keep(p, start, (size_t)(end - start));
}

/* Of a member; compilers call a static variable in a function `count.0` in the symbol table. */
static const char *take_member(struct parser *p, const char *what)
{
	skip_blanks(p);
	if (!isdigit((unsigned char)*p->at) || p->is_prefix)
		return take_word(p, what);
	const char *start = p->at;
	while (is_name_char(*p->at))
		p->at++;
	return expression_keep(p, start, (size_t)(p->at - start));
}

static struct node *parse_name(struct parser *p)
{
	struct node *n = node_new(p, NODE_NAME, p->at, NULL);
	const char *scope = expression_scope_end(p, p->at);

	if (scope) {
		n->scope = expression_keep(p, p->at, (size_t)(scope - p->at));
		p->at = scope + 1;
	}
	if (p->at[0] == ':' && p->at[1] == ':')
		p->at += 2; /* ::name is at file level */
	n->text = take_word(p, "the name of a variable");
	return n;
}

static uint64_t take_number(struct parser *p)
{
	char *end;

	skip_blanks(p);
	if (!isdigit((unsigned char)*p->at)) {
		expected(p, "a number");
		return 0;
	}
	errno = 0;
	uint64_t value = strtoull(p->at, &end, 0);
	if (errno) {
		expression_fail(p, p->at, "a number of more than 64 bits");
		return 0;
	}
	if (is_name_char(*end)) {
		expression_fail(p, end, "'%.1s' does not belong to a number", end);
		return 0;
	}
	p->at = end;
	return value;
}

static struct node *parse_unary(struct parser *p);

/* Is this parenthesis a cast? Those have stars before they close, and nothing but words first. */
static const char *cast_end(const struct parser *p)
{
	const char *at = p->at;

	for (;;) {
		while (isspace((unsigned char)*at))
			at++;
		const char *end = name_end(p, at);
		if (end == at)
			break;
		at = end;
	}
	return *at == '*' && at != p->at ? at : NULL;
}

static struct node *parse_cast(struct parser *p, const char *open, const char *stars)
{
	struct node *n = node_new(p, NODE_CAST, open, NULL);
	char type[EXPRESSION_TEXT_MAX + 1];
	size_t used = 0;

	if (stars - p->at > EXPRESSION_TEXT_MAX)
		return expression_fail(p, open, "longer than %d characters", EXPRESSION_TEXT_MAX);
	for (const char *c = p->at; c < stars; c++) {
		bool blank = isspace((unsigned char)*c);
		if (blank && (!used || type[used - 1] == ' '))
			continue;
		type[used++] = blank ? ' ' : *c;
	}
	while (used && type[used - 1] == ' ')
		used--;
	n->text = expression_keep(p, type, used);
	p->at = stars;
	while (take(p, "*"))
		n->number++;
	if (!take(p, ")"))
		return expected(p, "')' after the type");
	n->left = parse_unary(p);
	return n;
}

/* `arg0+16` in a parenthesis. A condition adds by itself. */
static struct node *parse_sum(struct parser *p, struct node *left)
{
	skip_blanks(p);
	if (p->err || p->is_prefix || (*p->at != '+' && *p->at != '-'))
		return left;
	struct node *n = node_new(p, NODE_ADD, p->at, left);
	n->is_negative = *p->at++ == '-';
	n->number = take_number(p);
	n->end = (int)(p->at - p->text);
	return n;
}

static struct node *parse_primary(struct parser *p)
{
	skip_blanks(p);
	const char *start = p->at;

	if (isdigit((unsigned char)*p->at) && !expression_scope_end(p, p->at)) {
		uint64_t number = take_number(p);
		struct node *n = node_new(p, NODE_NUMBER, start, NULL);
		n->number = number;
		return n;
	}
	if (take(p, "(")) {
		struct node *n = parse_sum(p, parse_unary(p));
		if (!p->err && !take(p, ")"))
			return expected(p, "')'");
		return n;
	}
	if (*p->at == '&')
		return expression_fail(p, p->at,
				       "'&' is not needed: give the name of the variable");
	return parse_name(p);
}

static struct node *parse_index(struct parser *p, const char *at, const struct node *left)
{
	struct node *n = node_new(p, NODE_INDEX, at, left);
	bool is_negative = take(p, "-");

	n->right = parse_unary(p);
	n->is_negative = is_negative;
	if (!p->err && !take(p, "]"))
		return expected(p, "']'");
	return n;
}

static struct node *parse_postfix(struct parser *p)
{
	struct node *n = parse_primary(p);

	while (!p->err) {
		n->end = (int)(p->at - p->text);
		skip_blanks(p);
		const char *at = p->at;
		if (take(p, "->")) {
			n = node_new(p, NODE_ARROW, at, n);
			n->text = take_word(p, "a member's name after '->'");
		} else if (take(p, ".")) {
			n = node_new(p, NODE_MEMBER, at, n);
			n->text = take_member(p, "a member's name after '.'");
		} else if (take(p, "[")) {
			n = parse_index(p, at, n);
		} else {
			p->at = p->text + n->end; /* blanks behind it are not its own */
			break;
		}
	}
	return n;
}

static struct node *parse_unary(struct parser *p)
{
	struct node *n;

	skip_blanks(p);
	const char *start = p->at;
	if (p->depth == DEPTH_MAX)
		return expression_fail(p, start, "nested too deep");
	p->depth++;
	if (take(p, "*")) {
		n = node_new(p, NODE_DEREF, start, NULL);
		n->left = parse_unary(p);
	} else if (*p->at == '(') {
		p->at++;
		const char *stars = cast_end(p);
		p->at = stars ? p->at : start;
		n = stars ? parse_cast(p, start, stars) : parse_postfix(p);
	} else {
		n = parse_postfix(p);
	}
	p->depth--;
	n->end = p->err ? 0 : (int)(p->at - p->text);
	return n;
}

static void parse_tail(struct parser *p)
{
	struct expression *e = p->out;

	skip_blanks(p);
	if (*p->at == '+' || *p->at == '-') {
		e->is_negative = *p->at == '-';
		e->has_offset = true;
		p->at++;
		e->offset = take_number(p);
	}
	skip_blanks(p);
	if (!p->err && take(p, ":")) {
		skip_blanks(p);
		const char *at = p->at;
		e->length = take_number(p);
		if (!p->err && (!e->length || e->length > LENGTH_MAX))
			expression_fail(p, at, "invalid length %llu: expected 1 to %d bytes",
					(unsigned long long)e->length, LENGTH_MAX);
	}
	skip_blanks(p);
	if (*p->at)
		expected(p, "'.', '->', '[', '+', ':' and a length, or the end");
}

static int expression_parse_all(const char *text, bool is_prefix, struct expression **out,
				struct expression_error *error)
{
	struct expression *e = calloc(1, sizeof(*e));
	struct parser p = {
		.text = text, .at = text, .out = e, .error = error, .is_prefix = is_prefix
	};

	if (!e)
		return -ENOMEM;
	memset(error, 0, sizeof(*error));
	p.nowhere.text = "";
	if (strnlen(text, EXPRESSION_TEXT_MAX + 1) > EXPRESSION_TEXT_MAX && !is_prefix)
		expression_fail(&p, text, "longer than %d characters", EXPRESSION_TEXT_MAX);
	if (!p.err)
		e->root = parse_unary(&p);
	if (!p.err && !is_prefix)
		parse_tail(&p);
	if (p.err) {
		free(e);
		return p.err;
	}
	snprintf(e->source, sizeof(e->source), "%.*s", (int)(p.at - text), text);
	*out = e;
	return (int)(p.at - text);
}

int expression_parse(const char *text, struct expression **out, struct expression_error *error)
{
	int n = expression_parse_all(text, false, out, error);

	return n < 0 ? n : 0;
}

int expression_parse_prefix(const char *text, struct expression **out,
			    struct expression_error *error)
{
	return expression_parse_all(text, true, out, error);
}

void expression_free(struct expression *e)
{
	free(e);
}

bool expression_has_offset(const struct expression *e)
{
	return e->has_offset;
}

uint64_t expression_length(const struct expression *e)
{
	return e->length;
}

const char *expression_plain_name(const struct expression *e)
{
	return e->root->kind == NODE_NAME && !e->root->scope ? e->root->text : NULL;
}

const char *expression_first_name(const struct expression *e)
{
	const struct node *n = e->root;

	while (n->left)
		n = n->left;
	return n->kind == NODE_NAME ? n->text : NULL;
}
