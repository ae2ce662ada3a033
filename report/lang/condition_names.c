// SPDX-License-Identifier: MIT
/*
 * condition_names.c - see condition_names.h.
 *
 * The text is copied word by word. A name that is not a word of the language is replaced by its
 * address or value. Whether a sign is unary depends on the word before it, as in C.
 */
#include "report/lang/condition_names.h"

#include "report/dwarf/variables.h"
#include "report/lang/condition_parameters.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 4096 /* of a condition, as the user writes it */
#define OUT_MAX 16384

struct rewrite {
	const struct condition_names *names;
	const char *text;
	const char *at;
	struct condition_text out;
	size_t used;
	bool after_value; /* the last word was a value: a sign that follows is binary */
	bool is_full;
	struct expression_error *error;
};

__attribute__((format(printf, 3, 4))) static void names_put(struct rewrite *r, const char *from,
							    const char *format, ...)
{
	size_t room = OUT_MAX - r->used;
	va_list args;

	va_start(args, format);
	int n = vsnprintf(r->out.text + r->used, room, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= room) {
		r->is_full = true;
		return;
	}
	for (int i = 0; i <= n; i++)
		r->out.columns[r->used + (size_t)i] = (unsigned short)(from - r->text + 1);
	r->used += (size_t)n;
}

static void copy(struct rewrite *r, size_t n)
{
	for (; n && *r->at; n--, r->at++)
		names_put(r, r->at, "%c", *r->at);
}

__attribute__((format(printf, 4, 5))) static int names_fail(struct rewrite *r, const char *where,
							    int err, const char *format, ...)
{
	va_list args;

	r->error->column = (int)(where - r->text) + 1;
	va_start(args, format);
	vsnprintf(r->error->text, sizeof(r->error->text), format, args);
	va_end(args);
	return err;
}

static bool names_is_one_of(const char *word, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(word, words[i]))
			return true;
	return false;
}

/* The types of casts and loads. */
static bool is_type(const char *word)
{
	static const char *const words[] = {
		"u8",	  "u16",     "u32",	"u64",	    "s8",	"s16",
		"s32",	  "s64",     "uint8_t", "uint16_t", "uint32_t", "uint64_t",
		"int8_t", "int16_t", "int32_t", "int64_t",
	};

	return names_is_one_of(word, words, sizeof(words) / sizeof(words[0]));
}

/* Words of the language. These four are not terms by themselves. */
static bool is_reserved(const struct rewrite *r, const char *word)
{
	/* As in C, a parameter hides what has its name outside. */
	if (parameter_has_name(r->names->signature, word))
		return false;

	static const char *const words[] = { "thread", "str", "count", "in" };

	return names_is_one_of(word, words, 4) || is_type(word) || r->names->is_term(word);
}

static size_t word_length(const char *at)
{
	size_t n = 0;

	while (isalnum((unsigned char)at[n]) || at[n] == '_' || at[n] == '$')
		n++;
	return n;
}

/* The address that a path leads to, as an expression of the language. */
static void put_address(struct rewrite *r, const char *from, const struct expression_path *path)
{
	char base[PARAMETER_TEXT];
	bool is_value = parameter_base(r->names->signature, path->base, base);

	r->out.has_parameters = r->out.has_parameters || is_parameter_address(path->base);
	/* The pointer itself is at hand: nothing is to be loaded for the first link. */
	for (size_t i = is_value ? 1 : 0; i < path->links; i++)
		names_put(r, from, "(*(u64 *)");
	names_put(r, from, is_value ? "((%s)" : "(%s)", base);
	for (size_t i = 0; i < path->links; i++)
		names_put(r, from, "+0x%" PRIx64 ")", path->offsets[i]);
}

/* Some bits of a number. */
static void put_bits(struct rewrite *r, const char *from, bool is_signed, uint32_t offset,
		     uint32_t size, const char *number)
{
	uint64_t mask = size >= 64 ? UINT64_MAX : (UINT64_C(1) << size) - 1;

	if (is_signed)
		names_put(r, from, "((s64)((%s)<<%u)>>%u)", number, 64 - offset - size, 64 - size);
	else
		names_put(r, from, "(((%s)>>%u)&0x%" PRIx64 ")", number, offset, mask);
}

static int put_place(struct rewrite *r, const char *from, const struct expression_place *p,
		     bool is_address)
{
	uint64_t size = p->type ? p->type->size : p->size;
	bool is_number = p->type ? type_is_number(p->type) :
				   size == 1 || size == 2 || size == 4 || size == 8;

	char load[600];

	const char *why = parameter_problem(r->names->signature, &p->path, is_address);
	if (why)
		return names_fail(r, from, -EINVAL, "%s", why);
	if (p->path.links && symbols_is_32bit(r->names->symbols))
		return names_fail(r, from, -EINVAL,
				  "a condition cannot follow a pointer of a 32-bit program");
	if (is_address || (p->type && p->type->kind == TYPE_ARRAY)) {
		if (p->bit_size)
			return names_fail(r, from, -EINVAL, "a bit-field has no address");
		put_address(r, from, &p->path);
		return 0;
	}
	if (!is_number || (p->bit_size && p->size > 8))
		return names_fail(r, from, -EINVAL,
				  "a condition compares whole numbers, but this is %s",
				  p->type ? p->type->name : "of unknown size");
	bool is_value = !p->path.links &&
			parameter_value(r->names->signature, p->path.base, load, sizeof(load));
	r->out.has_parameters = r->out.has_parameters || is_value;
	if (is_value && p->bit_size)
		put_bits(r, from, p->type->is_signed, p->bit_offset, p->bit_size, load);
	else if (is_value)
		names_put(r, from, "((%c%" PRIu64 ")%s)", p->type && p->type->is_signed ? 's' : 'u',
			  size * 8, load);
	if (is_value)
		return 0;
	if (p->bit_size) {
		size_t start = r->used;
		names_put(r, from, "*(u%" PRIu64 " *)", p->size * 8);
		put_address(r, from, &p->path);
		snprintf(load, sizeof(load), "%s", r->out.text + start);
		r->used = start;
		put_bits(r, from, p->type->is_signed, p->bit_offset, p->bit_size, load);
		return 0;
	}
	names_put(r, from, "(*(%c%" PRIu64 " *)", p->type && p->type->is_signed ? 's' : 'u',
		  size * 8);
	put_address(r, from, &p->path);
	names_put(r, from, ")");
	return 0;
}

/* A constant of the enum that is watched, before any other of that name. */
static bool find_constant(const struct rewrite *r, const char *name, int64_t *out)
{
	const struct condition_names *names = r->names;
	size_t n = 0;
	const struct type_constant *c = NULL;

	if (names->view.type)
		c = type_constants(names->view.type, &n);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(c[i].name, name) != 0)
			continue;
		*out = c[i].value;
		return true;
	}
	return !type_find_constant(names->symbols, name, out);
}

static int put_expression(struct rewrite *r, const char *from, const struct expression *e,
			  bool is_address)
{
	const struct condition_names *names = r->names;
	struct expression_local locals[PARAMETERS_MAX];
	struct expression_options options = { .thread = names->thread,
					      .path_only = true,
					      .locals = locals };
	const char *name = expression_plain_name(e);
	struct expression_place place;
	int64_t constant;

	if (!names->symbols) {
		names_put(r, from, "1");
		return 0;
	}
	options.local_count = parameters_as_locals(names->signature, locals);
	/* A variable of that name wins, as a local one would in C; looking for it costs more. */
	if (name && !is_address && names->view.type && names->view.type->kind == TYPE_ENUM &&
	    find_constant(r, name, &constant)) {
		names_put(r, from, "(%" PRId64 ")", constant);
		return 0;
	}
	int err = expression_resolve(names->symbols, e, &options, &place, r->error);
	if (!err)
		return put_place(r, from, &place, is_address);
	if (err == -ENOENT && name && !is_address && find_constant(r, name, &constant)) {
		names_put(r, from, "(%" PRId64 ")", constant);
		return 0;
	}
	r->error->column = (int)(from - r->text) + (r->error->column ? r->error->column : 1);
	return err;
}

/* new and old as the type has them. */
static void put_term(struct rewrite *r, const char *word)
{
	const struct value_view *v = &r->names->view;
	bool is_number = v->type && type_is_number(v->type);

	if (v->type && v->bit_size && v->bit_offset + v->bit_size <= r->names->len * 8)
		put_bits(r, r->at, v->type->is_signed, v->bit_offset, v->bit_size, word);
	else if (is_number && v->type->is_signed && v->type->size == r->names->len)
		names_put(r, r->at, "(s%" PRIu64 ")%s", v->type->size * 8, word);
	else
		names_put(r, r->at, "%s", word);
}

/* A word of the language; a symbol follows after `in`. */
static void copy_word(struct rewrite *r, size_t n)
{
	const struct value_view *v = &r->names->view;
	bool is_in = n == 2 && !strncmp(r->at, "in", 2);

	r->after_value = !is_in;
	if (n == 3 && (!strncmp(r->at, "new", 3) || !strncmp(r->at, "old", 3))) {
		put_term(r, *r->at == 'n' ? "new" : "old");
		r->at += n;
	} else if (n == 7 && !strncmp(r->at, "changed", 7) && v->type && v->bit_size) {
		names_put(r, r->at, "(");
		put_term(r, "new");
		names_put(r, r->at, "!=");
		put_term(r, "old");
		names_put(r, r->at, ")");
		r->at += n;
	} else {
		copy(r, n);
	}
	if (!is_in)
		return;
	while (isspace((unsigned char)*r->at))
		copy(r, 1);
	copy(r, word_length(r->at));
	r->after_value = true;
}

/* An expression that begins here, if it is more than the language has itself. 1: taken, or -errno. */
static int take_expression(struct rewrite *r, const char *at, bool is_address)
{
	struct expression_error error;
	struct expression *e = NULL;
	const char *from = r->at;
	int n = expression_parse_prefix(at, &e, &error);

	if (n == -ENOMEM)
		return n;
	if (n < 0)
		return *at == '(' || *at == '*' ?
			       0 :
			       names_fail(r, at + error.column - 1, n, "%s", error.text);
	const char *first = expression_first_name(e);
	const char *name = expression_plain_name(e);
	int err = 0;
	/* `(new)` and `*(u32 *)new` are the language's; `&name` is, too: of functions as well. */
	if (!first || is_reserved(r, first) || (is_address && name) || (*at == '(' && name)) {
		expression_free(e);
		return 0;
	}
	r->at = at;
	err = put_expression(r, at, e, is_address);
	expression_free(e);
	r->at = err ? from : at + n;
	r->after_value = true;
	return err ? err : 1;
}

static void copy_quoted(struct rewrite *r)
{
	char quote = *r->at;

	copy(r, 1);
	while (*r->at && *r->at != quote)
		copy(r, *r->at == '\\' && r->at[1] ? 2 : 1);
	copy(r, 1);
	r->after_value = true;
}

static int rewrite_sign(struct rewrite *r)
{
	bool is_start = !r->after_value && strchr("(*&", *r->at);
	bool is_address = *r->at == '&';
	const char *at = r->at + is_address;

	/* && is no two &. */
	if (r->at[0] == r->at[1] && strchr("&|<>=", *r->at)) {
		copy(r, 2);
		r->after_value = false;
		return 0;
	}
	while (is_address && isspace((unsigned char)*at))
		at++;
	if (is_start && (!is_address || isalpha((unsigned char)*at) || *at == '_')) {
		int taken = take_expression(r, at, is_address);
		if (taken)
			return taken < 0 ? taken : 0;
	}
	if (is_start && is_address) {
		/* The name of a symbol, which the language looks up. */
		copy(r, (size_t)(at - r->at) + word_length(at));
		r->after_value = true;
		return 0;
	}
	r->after_value = *r->at == ')';
	copy(r, 1);
	return 0;
}

/*
 * `(u32)`, `(u32 *)`: behind it a sign has one side, behind `(a)` two. Returns its length; 0: it
 * is no cast.
 */
static size_t cast_length(const struct rewrite *r)
{
	const char *at = r->at + 1;
	size_t n = word_length(at);
	char word[16];

	if (*r->at != '(' || !n || n >= sizeof(word))
		return 0;
	snprintf(word, sizeof(word), "%.*s", (int)n, at);
	if (!is_type(word))
		return 0;
	for (at += n; isspace((unsigned char)*at) || *at == '*'; at++)
		;
	return *at == ')' ? (size_t)(at + 1 - r->at) : 0;
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

/* A word where only an operator can stand. */
static int wrong_word(struct rewrite *r, const char *word)
{
	const char *sign = operator_named(word);

	if (sign)
		return names_fail(r, r->at, -EINVAL, "unknown word '%s'; did you mean %s?", word,
				  sign);
	return names_fail(r, r->at, -EINVAL, "expected an operator or the end, not '%s'", word);
}

/* `not x`: a name would have an operator behind it. */
static bool is_not(const char *word, const char *after)
{
	const char *next = after + strspn(after, " \t\n");

	return !strcmp(word, "not") &&
	       (isalpha((unsigned char)*next) || *next == '_' || *next == '(');
}

/* A word that is a name, or one of the language's. */
static int rewrite_word(struct rewrite *r, size_t n)
{
	const char *after = r->at + n;
	char word[80];

	snprintf(word, sizeof(word), "%.*s", (int)n, r->at);
	if (r->after_value && n && strcmp(word, "in") != 0)
		return wrong_word(r, word);
	if (is_not(word, after))
		return names_fail(r, r->at, -EINVAL, "unknown word 'not'; did you mean !?");
	/* conn.c:count may begin like a term. */
	bool is_longer = *after == '.' || !strncmp(after, "->", 2) || !strncmp(after, "::", 2);
	if (n && n < sizeof(word) && !is_longer && is_reserved(r, word)) {
		copy_word(r, n);
		return 0;
	}
	int taken = take_expression(r, r->at, false);
	if (!taken)
		copy_word(r, n ? n : 1);
	return taken < 0 ? taken : 0;
}

static int rewrite_next(struct rewrite *r)
{
	char c = *r->at;
	size_t n = word_length(r->at);

	if (isspace((unsigned char)c)) {
		copy(r, 1);
		return 0;
	}
	if (c == '"' || c == '\'') {
		copy_quoted(r);
		return 0;
	}
	if (cast_length(r)) {
		copy(r, cast_length(r));
		r->after_value = false;
		return 0;
	}
	if (isdigit((unsigned char)c)) {
		r->after_value = true;
		copy(r, n);
		return 0;
	}
	if (n || (c == ':' && r->at[1] == ':'))
		return rewrite_word(r, n);
	return rewrite_sign(r);
}

int condition_names(const struct condition_names *names, const char *text,
		    struct condition_text *out, struct expression_error *error)
{
	struct rewrite r = { .names = names, .text = text, .at = text, .error = error };
	int err = 0;

	memset(error, 0, sizeof(*error));
	if (strlen(text) > TEXT_MAX)
		return names_fail(&r, text, -E2BIG, "the condition has more than %d characters",
				  TEXT_MAX);
	r.out.text = calloc(1, OUT_MAX);
	r.out.columns = calloc(OUT_MAX, sizeof(*r.out.columns));
	if (!r.out.text || !r.out.columns)
		err = -ENOMEM;
	else
		names_put(&r, text, "%s", "");
	while (!err && *r.at && !r.is_full)
		err = rewrite_next(&r);
	if (!err && r.is_full)
		err = names_fail(&r, r.at, -E2BIG, "the condition is too long");
	if (err) {
		condition_text_free(&r.out);
		return err;
	}
	names_put(&r, r.at, "%s", "");
	*out = r.out;
	return 0;
}

void condition_text_free(struct condition_text *text)
{
	free(text->text);
	free(text->columns);
	text->text = NULL;
	text->columns = NULL;
}

char *condition_for_bits(const struct value_view *view, uint64_t len, const char *user)
{
	uint64_t mask = view->bit_size >= 64 ? UINT64_MAX : (UINT64_C(1) << view->bit_size) - 1;
	char *text;

	if (!view->bit_size || view->bit_offset + view->bit_size > len * 8 || len > 8)
		return NULL;
	/* The user's part begins after one character, so that its columns are known. */
	if (asprintf(&text, "%s%s%s((new^old)&0x%" PRIx64 ")!=0||new==old%s", user ? "(" : "",
		     user ? user : "", user ? ")&&(" : "", mask << view->bit_offset,
		     user ? ")" : "") < 0)
		return NULL;
	return text;
}
