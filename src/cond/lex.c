/* SPDX-License-Identifier: MIT */
/* lex.c - see lex.h. */
#include "cond/lex.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static void wrong(struct token *t, const char *why)
{
	t->kind = TOKEN_WRONG;
	t->wrong = why;
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 32);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static const char *lex_suffix(const char *at, struct token *t)
{
	for (; *at && strchr("uUlL", *at); at++)
		t->is_unsigned |= *at == 'u' || *at == 'U';
	if (is_name_char(*at))
		wrong(t, "unexpected letters after a number");
	return at;
}

/* 1.5, 2., .5, 1e9, 1.5e-3f, 0x1.8p3: what follows the digits decides. */
static bool is_float(const char *at)
{
	const bool is_hex = at[0] == '0' && (at[1] | 32) == 'x';
	const char *digits = is_hex ? "0123456789abcdefABCDEF" : "0123456789";

	if (is_hex)
		at += 2;
	const char *end = at + strspn(at, digits);
	if (*end == '.')
		return end[1] != '.' &&
		       (is_hex || !isalpha((unsigned char)end[1]) || strchr("eEfF", end[1]));
	if (is_hex)
		return (*end | 32) == 'p';
	return (*end | 32) == 'e' &&
	       isdigit((unsigned char)end[1 + (end[1] == '-' || end[1] == '+')]);
}

/* The decimal point is a point, also where the locale of the program has a comma. */
static const char *lex_float(const char *at, struct token *t)
{
	locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	char *end = (char *)(uintptr_t)at;
	double value = plain ? strtod_l(at, &end, plain) : 0;

	if ((*end | 32) == 'f') {
		value = plain ? (double)strtof_l(at, &end, plain) : 0;
		t->is_single = true;
		end++;
	}
	if (plain)
		freelocale(plain);
	t->kind = TOKEN_NUMBER;
	t->is_float = true;
	memcpy(&t->number, &value, sizeof(t->number));
	if (isinf(value))
		wrong(t, "a floating-point number is too large for its type");
	else if (is_name_char(*end) || end == at)
		wrong(t, "unexpected letters after a number");
	return end;
}

static const char *lex_number(const char *at, struct token *t)
{
	int base = 10;

	if (at[0] == '0' && (at[1] | 32) == 'x' && digit_of(at[2]) < 16) {
		base = 16;
		at += 2;
	} else if (at[0] == '0' && (at[1] | 32) == 'b' && digit_of(at[2]) < 2) {
		base = 2;
		at += 2;
	} else if (at[0] == '0') {
		base = 8;
	}
	t->kind = TOKEN_NUMBER;
	for (; digit_of(*at) < base; at++) {
		uint64_t digit = (uint64_t)digit_of(*at);
		uint64_t next;

		if (__builtin_mul_overflow(t->number, (uint64_t)base, &next) ||
		    __builtin_add_overflow(next, digit, &next)) {
			t->is_too_large = true;
			wrong(t, "a number has more than 64 bits");
			return at;
		}
		t->number = next;
	}
	/* As in C: what is too large for a signed number is unsigned. */
	t->is_unsigned = t->number > INT64_MAX;
	return lex_suffix(at, t);
}

/* One character of a string or character constant, after a backslash if there is one. */
static const char *lex_char(const char *at, char *out, struct token *t)
{
	static const char from[] = "nrt0\\\"'";
	static const char to[] = "\n\r\t\0\\\"'";

	if (*at != '\\') {
		*out = *at;
		return at + 1;
	}
	if (at[1] == 'x' && digit_of(at[2]) < 16 && digit_of(at[3]) < 16) {
		*out = (char)(digit_of(at[2]) * 16 + digit_of(at[3]));
		return at + 4;
	}
	const char *known = at[1] ? strchr(from, at[1]) : NULL;
	if (!known) {
		wrong(t, "an unknown character follows a backslash");
		return at + 1;
	}
	*out = to[known - from];
	return at + 2;
}

static const char *lex_string(const char *at, struct token *t)
{
	t->kind = TOKEN_STRING;
	t->len = 0;
	at++;
	while (*at && *at != '"' && t->kind == TOKEN_STRING) {
		if (t->len == COND_STRING_MAX) {
			wrong(t, "a string has more than 64 bytes");
			return at;
		}
		at = lex_char(at, &t->text[t->len++], t);
	}
	if (t->kind == TOKEN_STRING && *at != '"')
		wrong(t, "a string does not end");
	return *at == '"' ? at + 1 : at;
}

static const char *lex_character(const char *at, struct token *t)
{
	char c = 0;

	t->kind = TOKEN_NUMBER;
	if (at[1] && at[1] != '\'')
		at = lex_char(at + 1, &c, t);
	else
		at++;
	if (t->kind == TOKEN_NUMBER && *at != '\'')
		wrong(t, "a character constant does not end");
	t->number = (uint64_t)(int64_t)(signed char)c;
	return *at == '\'' ? at + 1 : at;
}

const char *token_word_end(const char *text)
{
	while (is_name_char(*text))
		text++;
	return text;
}

static const char *lex_word(const char *at, struct token *t)
{
	const char *end = token_word_end(at);

	t->kind = TOKEN_NAME;
	if (end - at > COND_STRING_MAX) {
		wrong(t, "a name has more than 64 characters");
		return at + COND_STRING_MAX;
	}
	t->len = (uint32_t)(end - at);
	memcpy(t->text, at, t->len);
	return end;
}

bool token_is_name_start(char c)
{
	return isalpha((unsigned char)c) || c == '_' || c == '$' || (c & 0x80);
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

/* Behind the version of a symbol, `@V1` or `@@GLIBC_2.2.5`; in it a dot is before a digit only. */
static const char *version_end(const char *at)
{
	const char *c = at + strspn(at, "@");

	if (c == at || c > at + 2 || !is_name_char(*c))
		return at;
	while (is_name_char(*c) || (*c == '.' && isdigit((unsigned char)c[1])))
		c++;
	return c;
}

/* name, Class<T>::name, name@VERSION, (anonymous namespace) apart. */
static const char *lex_qualified(const char *at, enum token_names names, struct token *t)
{
	t->kind = TOKEN_NAME;
	for (;;) {
		while (token_is_name_start(*at) || isdigit((unsigned char)*at))
			at++;
		const char *end = *at == '<' ? template_end(at) : NULL;
		if (end && (names == TOKEN_PLACES || (end[0] == ':' && end[1] == ':')))
			at = end;
		if (at[0] != ':' || at[1] != ':' || !token_is_name_start(at[2]))
			return version_end(at);
		at += 2;
	}
}

const char *token_scope_end(const char *text, enum token_names names)
{
	const char *at = text;
	bool has_dot = false;

	while (isalnum((unsigned char)*at) || (*at && strchr("_./+-$~@", *at))) {
		if (at[0] == '-' && at[1] == '>')
			return NULL;
		has_dot = has_dot || *at == '.';
		at++;
	}
	if (at == text || at[0] != ':' || !token_is_name_start(at[1]))
		return NULL;
	/* In a condition `a ? b : c` has colons too. */
	return names == TOKEN_PLACES || has_dot ? at : NULL;
}

static const char *lex_sign(const char *at, struct token *t)
{
	static const char *const pairs[] = { "<<", ">>", "<=", ">=", "==", "!=", "&&", "||" };

	t->kind = TOKEN_SIGN;
	t->len = 1;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		if (at[0] == pairs[i][0] && at[1] == pairs[i][1])
			t->len = 2;
	if (t->len == 1 && !strchr("+-*/%&|^~!<>?:(),[]", *at)) {
		wrong(t, *at == '=' ? "a condition cannot assign: == compares" :
				      "a condition has no such character");
		return at + 1;
	}
	memcpy(t->text, at, t->len);
	return at + t->len;
}

void token_read(const char *text, enum token_names names, struct token *out)
{
	const char *c = text;

	while (isspace((unsigned char)*c))
		c++;
	memset(out, 0, sizeof(*out));
	out->start = c;
	if (!*c)
		out->kind = TOKEN_END;
	else if (names == TOKEN_WORDS && (isdigit((unsigned char)*c) || *c == '.') &&
		 isdigit((unsigned char)c[*c == '.']) && is_float(c))
		c = lex_float(c, out);
	else if (isdigit((unsigned char)*c))
		c = lex_number(c, out);
	else if (names == TOKEN_WORDS && is_name_char(*c))
		c = lex_word(c, out);
	else if (names != TOKEN_WORDS && token_is_name_start(*c))
		c = lex_qualified(c, names, out);
	else if (*c == '"')
		c = lex_string(c, out);
	else if (*c == '\'')
		c = lex_character(c, out);
	else
		c = lex_sign(c, out);
	out->end = c;
}
