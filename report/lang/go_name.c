/* SPDX-License-Identifier: MIT */
/*
 * go_name.c - names of Go's functions: `path/pkg.(*Type[...]).Method`, and how people shorten them.
 */
#include "report/dwarf/go.h"

#include "report/code/code_sites_priv.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

#define GO_NAME_MAX 1024

/* Without the type arguments: `Map[go.shape.int_0]` is a Map. */
static void cut_type_arguments(char *name)
{
	char *out = name;
	int depth = 0;

	for (const char *p = name; *p; p++) {
		depth += *p == '[';
		if (!depth)
			*out++ = *p;
		depth -= *p == ']' && depth > 0;
	}
	*out = 0;
}

/* `(*T).M` as `T.M`. */
static void cut_pointer(char *name)
{
	char *open = strstr(name, "(*");
	char *close = open ? strchr(open, ')') : NULL;

	if (!close)
		return;
	memmove(close, close + 1, strlen(close + 1) + 1);
	memmove(open, open + 2, strlen(open + 2) + 1);
}

/* The star of a pointer and the bracket of type arguments stand for themselves in a pattern. */
static void escape(const char *text, char *out, size_t n)
{
	size_t used = 0;

	for (const char *p = text; *p && used + 3 < n; p++) {
		bool is_pointer = *p == '*' && p > text && p[-1] == '(';
		bool is_arguments = *p == '[' &&
				    (!strncmp(p, "[...]", 5) || !strncmp(p, "[go.", 4));

		if (is_pointer || is_arguments)
			out[used++] = '\\';
		out[used++] = *p;
	}
	out[used] = 0;
}

bool go_is_literal(struct symbols *s, const char *text)
{
	Dwfl_Module *program = symbols_first_module(s, NULL);
	char pattern[GO_NAME_MAX];

	escape(text, pattern, sizeof(pattern));
	for (const char *p = pattern; *p; p++)
		if (strchr("*?[", *p) && (p == pattern || p[-1] != '\\'))
			return false;
	return program && go_is(s, program);
}

/* A short form has a dot, so that `open` is that of libc, and not each package's. */
static bool any_form_fits(const struct function_name *wanted, const char *text, const char *name)
{
	char pattern[GO_NAME_MAX];
	const char *slash = strrchr(name, '/');
	const char *package = slash ? slash + 1 : name;
	const char *dot = strchr(package, '.');
	const char *forms[] = { name, package, dot ? dot + 1 : package };
	bool is_short = strchr(text, '.') != NULL;
	/* `main.*` is all of package main, and not the closures of each function named main. */
	size_t count = !is_short ? 1 : wanted->is_pattern && text[0] != '(' ? 2 : 3;

	escape(text, pattern, sizeof(pattern));
	for (size_t i = 0; i < count; i++)
		if (!strcmp(forms[i], text) ||
		    (wanted->is_pattern && !fnmatch(pattern, forms[i], 0)))
			return true;
	return false;
}

bool go_name_fits(const struct function_name *wanted, const char *name)
{
	char text[GO_NAME_MAX];
	char form[GO_NAME_MAX];

	if (strlen(name) >= sizeof(form) || strlen(wanted->text) >= sizeof(text))
		return false;
	strcpy(form, name);
	if (any_form_fits(wanted, wanted->text, form))
		return true;
	/* The runtime prints the arguments of types as [...]. */
	strcpy(text, wanted->text);
	if (strstr(text, "[...]"))
		cut_type_arguments(text);
	cut_type_arguments(form);
	if (any_form_fits(wanted, text, form))
		return true;
	cut_pointer(form);
	return any_form_fits(wanted, text, form);
}
