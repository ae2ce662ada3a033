/* SPDX-License-Identifier: MIT */
/*
 * tree_path.c - paths to memory as users name them: `server.clients`, `conn->state`,
 * `table[3].next`, `*(struct foo *)0x5581...`, `conn.c:count`, `ns::Class::total`.
 */
#include "cond/tree_path.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define DEPTH_MAX 32
#define LENGTH_MAX 4096 /* bytes that can be watched, multiplexed */

static struct tree_node *path_expected(struct tree_parser *p, const char *what)
{
	const char *at = p->now.start;

	if (!*at)
		return tree_fail(p, -EINVAL, at, "expected %s, but the text ends", what);
	return tree_fail(p, -EINVAL, at, "expected %s, not '%.1s'", what, at);
}

/* Signs are compared as characters: `->` is not one of a condition's tokens. */
static bool path_take(struct tree_parser *p, const char *sign)
{
	size_t n = strlen(sign);

	if (p->err || strncmp(p->now.start, sign, n) != 0)
		return false;
	p->now.end = p->now.start + n;
	tree_next(p);
	return true;
}

static const char *path_word(struct tree_parser *p, const char *what)
{
	if (p->now.kind != TOKEN_NAME) {
		path_expected(p, what);
		return "";
	}
	const char *word = tree_keep(p, p->now.start, (size_t)(p->now.end - p->now.start));
	tree_next(p);
	return word;
}

/*
 * The length of a member; compilers call a static variable in a function `count.0` in the symbol
 * table.
 */
static const char *path_member(struct tree_parser *p, const char *what)
{
	if (p->lexing == TOKEN_PLACES && isdigit((unsigned char)*p->now.start)) {
		p->now.kind = TOKEN_NAME;
		p->now.end = p->now.start;
		while (token_is_name_start(*p->now.end) || isdigit((unsigned char)*p->now.end))
			p->now.end++;
	}
	return path_word(p, what);
}

/* `size()`, which a condition reads where the type is of a library. */
static void path_call(struct tree_parser *p, struct tree_node *n)
{
	const char *at = p->now.start;
	char call[64];

	if (p->err || at[0] != '(' || at[1] != ')' || p->lexing == TOKEN_PLACES ||
	    strlen(n->text) + sizeof("()") > sizeof(call))
		return;
	path_take(p, "(");
	path_take(p, ")");
	strcpy(call, n->text);
	strcat(call, "()");
	n->text = tree_keep(p, call, strlen(call));
}

static struct tree_node *path_name(struct tree_parser *p)
{
	struct tree_node *n = tree_node_new(p, TREE_NAME, p->now.start, NULL);
	const char *at = p->now.start;
	const char *scope = token_scope_end(at, p->lexing);

	if (scope) {
		n->scope = tree_keep(p, at, (size_t)(scope - at));
		at = scope + 1;
	}
	if (at[0] == ':' && at[1] == ':')
		at += 2; /* ::name is at file level */
	if (!p->err && at != p->now.start)
		tree_lex_at(p, at, p->lexing);
	n->text = path_word(p, "the name of a variable");
	return n;
}

static uint64_t path_number(struct tree_parser *p)
{
	uint64_t number = p->now.number;

	if (!isdigit((unsigned char)*p->now.start))
		path_expected(p, "a number");
	else if (p->now.is_too_large)
		tree_fail(p, -EINVAL, p->now.start, "%s", p->now.wrong);
	else if (p->now.kind == TOKEN_WRONG)
		tree_fail(p, -EINVAL, p->now.end, "'%.1s' does not belong to a number", p->now.end);
	tree_next(p);
	return number;
}

/*
 * Is this parenthesis a cast? Those have stars before they close, and nothing but words first.
 * Returns the first star.
 */
static const char *cast_stars(const struct tree_parser *p)
{
	struct token word;
	const char *at = p->now.end;

	for (;;) {
		token_read(at, p->lexing, &word);
		if (word.kind != TOKEN_NAME)
			return *word.start == '*' && at != p->now.end ? word.start : NULL;
		at = word.end;
	}
}

static struct tree_node *path_cast(struct tree_parser *p, const char *stars)
{
	struct tree_node *n = tree_node_new(p, TREE_CAST, p->now.start, NULL);
	char type[TREE_PLACE_MAX];
	size_t used = 0;

	for (const char *c = p->now.end; c < stars && used < sizeof(type); c++) {
		bool blank = isspace((unsigned char)*c);
		if (blank && (!used || type[used - 1] == ' '))
			continue;
		type[used++] = blank ? ' ' : *c;
	}
	if (used == sizeof(type))
		return tree_fail(p, -EINVAL, p->now.start, "longer than %d characters",
				 TREE_PLACE_MAX);
	while (used && type[used - 1] == ' ')
		used--;
	n->text = tree_keep(p, type, used);
	tree_lex_at(p, stars, p->lexing);
	while (path_take(p, "*"))
		n->number++;
	if (!path_take(p, ")"))
		return path_expected(p, "')' after the type");
	n->left = tree_path(p);
	return n;
}

/* `arg0+16` in a parenthesis. A condition adds by itself. */
static struct tree_node *path_sum(struct tree_parser *p, struct tree_node *left)
{
	const char *at = p->now.start;

	if (p->err || p->lexing != TOKEN_PLACES || (*at != '+' && *at != '-'))
		return left;
	struct tree_node *n = tree_node_new(p, TREE_SUM, at, left);
	n->is_negative = *at == '-';
	path_take(p, n->is_negative ? "-" : "+");
	n->number = path_number(p);
	return tree_node_end(p, n);
}

static struct tree_node *path_primary(struct tree_parser *p)
{
	const char *start = p->now.start;
	struct tree_node *n;

	if (isdigit((unsigned char)*start) && !token_scope_end(start, p->lexing)) {
		n = tree_node_new(p, TREE_NUMBER, start, NULL);
		n->number = path_number(p);
	} else if (path_take(p, "(")) {
		n = path_sum(p, tree_path(p));
		if (!path_take(p, ")"))
			return path_expected(p, "')'");
		n->start = (int)(start - p->text);
	} else if (*start == '&') {
		return tree_fail(p, -EINVAL, start,
				 "'&' is not needed: give the name of the variable");
	} else {
		n = path_name(p);
	}
	return tree_node_end(p, n);
}

static struct tree_node *path_index(struct tree_parser *p, const char *at,
				    const struct tree_node *left)
{
	struct tree_node *n = tree_node_new(p, TREE_INDEX, at, left);

	n->is_negative = path_take(p, "-");
	n->right = tree_path(p);
	if (!path_take(p, "]"))
		return path_expected(p, "']'");
	return n;
}

static struct tree_node *path_postfix(struct tree_parser *p)
{
	struct tree_node *n = path_primary(p);

	while (!p->err) {
		const char *at = p->now.start;
		if (path_take(p, "->")) {
			n = tree_node_new(p, TREE_ARROW, at, n);
			n->text = path_word(p, "a member's name after '->'");
			path_call(p, n);
		} else if (path_take(p, ".")) {
			n = tree_node_new(p, TREE_MEMBER, at, n);
			n->text = path_member(p, "a member's name after '.'");
			path_call(p, n);
		} else if (path_take(p, "[")) {
			n = path_index(p, at, n);
		} else {
			break;
		}
		tree_node_end(p, n);
	}
	return n;
}

struct tree_node *tree_path(struct tree_parser *p)
{
	const char *start = p->now.start;
	struct tree_node *n;

	if (p->path_depth == DEPTH_MAX)
		return tree_fail(p, -EINVAL, start, "nested too deep");
	p->path_depth++;
	const char *stars = *start == '(' ? cast_stars(p) : NULL;
	if (path_take(p, "*")) {
		n = tree_node_new(p, TREE_DEREF, start, NULL);
		n->left = tree_path(p);
	} else {
		n = stars ? path_cast(p, stars) : path_postfix(p);
	}
	p->path_depth--;
	return tree_node_end(p, n);
}

void tree_place(struct tree_parser *p)
{
	struct expression *t = p->out;

	t->root = tree_path(p);
	if (*p->now.start == '+' || *p->now.start == '-') {
		t->is_negative = *p->now.start == '-';
		t->has_offset = true;
		path_take(p, t->is_negative ? "-" : "+");
		t->offset = path_number(p);
	}
	if (path_take(p, ":")) {
		const char *at = p->now.start;
		t->length = path_number(p);
		if (!t->length || t->length > LENGTH_MAX)
			tree_fail(p, -EINVAL, at, "invalid length %llu: expected 1 to %d bytes",
				  (unsigned long long)t->length, LENGTH_MAX);
	}
	if (p->now.kind != TOKEN_END)
		path_expected(p, "'.', '->', '[', '+', ':' and a length, or the end");
}

const struct tree_node *tree_first(const struct tree_node *path)
{
	while (path->left)
		path = path->left;
	return path->kind == TREE_NAME ? path : NULL;
}
