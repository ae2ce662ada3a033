// SPDX-License-Identifier: MIT
/*
 * break_result.c - the parts of --if that compare the result: `ret < 0`, `ret == BLUE`.
 *
 * The kernel evaluates a condition when a function is entered, and then there is no result. With
 * --ret the parts of a chain of && that compare the result are evaluated here, when the function has
 * returned. The kernel evaluates the rest.
 */
#include "cli/break/break_result.h"

#include "cli/cmd.h"
#include "cli/observe/observe_settings.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const operators[] = { "==", "!=", "<=", ">=", "<", ">" };
enum {
	EQUAL,
	NOT_EQUAL,
	AT_MOST,
	AT_LEAST,
	BELOW,
	ABOVE,
	OPERATORS
};

static bool is_word_character(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$';
}

/* True if a part names the result. A member `ret` and text in quotes do not count. */
static bool names_result(const char *part, size_t n)
{
	char quote = 0;

	for (size_t i = 0; i < n; i++) {
		if (quote ? part[i] == quote : part[i] == '"' || part[i] == '\'')
			quote = quote ? 0 : part[i];
		if (quote || strncmp(part + i, "ret", 3) != 0 || is_word_character(part[i + 3]))
			continue;
		if (!i ||
		    (!is_word_character(part[i - 1]) && part[i - 1] != '.' && part[i - 1] != '>'))
			return true;
	}
	return false;
}

/* The length of one part of a chain of &&: up to the next && outside of parentheses and quotes. */
static size_t part_length(const char *text)
{
	int open = 0;
	char quote = 0;
	size_t i = 0;

	for (; text[i]; i++) {
		if (quote) {
			quote = text[i] == quote ? 0 : quote;
			i += text[i] == '\\' && text[i + 1];
			continue;
		}
		if (text[i] == '"' || text[i] == '\'')
			quote = text[i];
		open += (text[i] == '(') - (text[i] == ')');
		if (!open && text[i] == '&' && text[i + 1] == '&')
			break;
	}
	return i;
}

/* `ret OP constant`, or `ret` alone. */
static bool parse_test(const char *part, size_t n, struct break_result_test *out)
{
	char text[128];
	char *at = text;

	if (n >= sizeof(text))
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)n, part);
	at += strspn(at, " \t\n");
	if (strncmp(at, "ret", 3) != 0)
		return false;
	at += 3 + strspn(at + 3, " \t\n");
	*out = (struct break_result_test){ .op = NOT_EQUAL };
	if (!*at)
		return true;
	for (out->op = 0; out->op < OPERATORS; out->op++)
		if (!strncmp(at, operators[out->op], strlen(operators[out->op])))
			break;
	if (out->op == OPERATORS)
		return false;
	at += strlen(operators[out->op]);
	at += strspn(at, " \t\n");
	char *end = at + strlen(at);
	while (end > at && isspace((unsigned char)end[-1]))
		*--end = 0;
	if (isalpha((unsigned char)*at) || *at == '_') {
		snprintf(out->name, sizeof(out->name), "%.60s", at);
		return strspn(at,
			      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") ==
		       strlen(at);
	}
	out->value = *at == '-' ? strtoll(at, &end, 0) : (int64_t)strtoull(at, &end, 0);
	return *at && !*end;
}

int break_result_split(struct observe_settings *set)
{
	const char *at = set->condition;
	size_t used = 0;

	if (!at || !set->ret)
		return 0;
	set->entry_text = calloc(1, strlen(at) + 1);
	if (!set->entry_text)
		return cli_wrong(set->name, "out of memory");
	for (;;) {
		size_t n = part_length(at);
		if (!names_result(at, n)) {
			used += (size_t)sprintf(set->entry_text + used, "%s%.*s", used ? "&&" : "",
						(int)n, at);
		} else if (set->result_tests == BREAK_RESULT_TESTS ||
			   !parse_test(at, n, &set->result_test[set->result_tests++])) {
			return cli_wrong(
				set->name,
				"--if: cannot evaluate '%.*s': compare ret with a number or a "
				"constant, as in 'ret < 0 && ...'",
				(int)n, at);
		}
		if (!at[n])
			break;
		at += n + 2;
	}
	/* Without such a part the condition stays as the user wrote it, and so do its errors. */
	if (set->result_tests)
		set->condition = set->entry_text[0] ? set->entry_text : NULL;
	return 0;
}

/* The result with the size and the sign of its type. */
static int64_t result_of(const struct trapline_hit *hit, const struct type *type, bool *is_signed)
{
	uint64_t value = 0;
	uint64_t size = type ? type->size : 8;

	trapline_hit_register(hit, 0, &value);
	*is_signed = !type || type->is_signed;
	if (!size || size >= 8)
		return (int64_t)value;
	unsigned int shift = (unsigned int)(64 - size * 8);
	return *is_signed ? (int64_t)(value << shift) >> shift : (int64_t)(value << shift >> shift);
}

static bool constant_of(struct symbols *s, const struct type *type, const char *name, int64_t *out)
{
	size_t n = 0;
	const struct type_constant *c = type ? type_constants(type, &n) : NULL;

	for (size_t i = 0; i < n; i++) {
		if (strcmp(c[i].name, name) != 0)
			continue;
		*out = c[i].value;
		return true;
	}
	if (!strcmp(name, "NULL") || !strcmp(name, "false")) {
		*out = 0;
		return true;
	}
	return !type_find_constant(s, name, out);
}

static bool holds(const struct break_result_test *test, int64_t is, int64_t wanted, bool is_signed)
{
	int order = is_signed ?
			    (is > wanted) - (is < wanted) :
			    ((uint64_t)is > (uint64_t)wanted) - ((uint64_t)is < (uint64_t)wanted);

	switch (test->op) {
	case EQUAL:
		return !order;
	case NOT_EQUAL:
		return order != 0;
	case AT_MOST:
		return order <= 0;
	case AT_LEAST:
		return order >= 0;
	default:
		return test->op == BELOW ? order < 0 : order > 0;
	}
}

bool break_result_holds(const struct observe_settings *set, struct symbols *s,
			const struct signature *signature, const struct trapline_hit *returned)
{
	const struct type *type = signature ? signature->result.type : NULL;
	bool is_signed;
	int64_t is = result_of(returned, type, &is_signed);

	for (size_t i = 0; i < set->result_tests; i++) {
		const struct break_result_test *test = &set->result_test[i];
		int64_t wanted = test->value;
		if (test->name[0] && !constant_of(s, type, test->name, &wanted))
			return false;
		if (!holds(test, is, wanted, is_signed))
			return false;
	}
	return true;
}

int break_result_check(const struct observe_settings *set, struct symbols *s,
		       const struct signature *signature, const char *function)
{
	const struct type *type = signature ? signature->result.type : NULL;
	int64_t unused;

	if (set->result_tests && type &&
	    (type->kind == TYPE_VOID || type_has_members(type) ||
	     signature->result.where == SIGNATURE_VECTOR))
		return cli_wrong(set->name, "--if: cannot compare the result of %s: its type is %s",
				 function, type->name);
	for (size_t i = 0; i < set->result_tests; i++)
		if (set->result_test[i].name[0] &&
		    !constant_of(s, type, set->result_test[i].name, &unused))
			return cli_wrong(set->name, "--if: unknown constant '%s'",
					 set->result_test[i].name);
	return 0;
}
