/* SPDX-License-Identifier: MIT */
/* function_name.c - names of functions as compilers, demanglers and people write them. */
#include "report/code/code_sites_priv.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

/* Names by the hundred thousand are compared: most letters begin neither of these. */
static bool is_operator(const char *p)
{
	return *p == 'o' && !strncmp(p, "operator", 8);
}

static bool is_anonymous(const char *p)
{
	return *p == '(' && !strncmp(p, "(anonymous namespace)", 21);
}

/* The '(' that begins the arguments: not that of operator() nor of (anonymous namespace). */
static const char *arguments_of(const char *name)
{
	int angles = 0;

	for (const char *p = name; *p; p++) {
		if (is_operator(p) && !isalnum((unsigned char)p[8]) && p[8] != '_') {
			p += 8;
			p += strncmp(p, "()", 2) ? strspn(p, "<>=!+-*/%^&|~[],") : 2;
			p--;
			continue;
		}
		if (is_anonymous(p)) {
			p += 20;
			continue;
		}
		angles += (*p == '<') - (*p == '>');
		if (*p == '(' && angles <= 0)
			return p;
	}
	return NULL;
}

/* Behind the result type, which stands before the names of templates. */
static const char *skip_result(const char *name, const char *end)
{
	const char *start = name;
	int angles = 0;

	for (const char *p = name; p < end; p++) {
		if (is_operator(p))
			break;
		if (is_anonymous(p)) {
			p += 20;
			continue;
		}
		angles += (*p == '<') - (*p == '>');
		if (*p == ' ' && angles <= 0)
			start = p + 1;
	}
	return start;
}

const char *function_name_plain(const char *name, char *buf, size_t n)
{
	const char *end = arguments_of(name);

	if (!end)
		end = name + strlen(name);
	const char *start = strchr(name, '(') || strchr(name, ':') ? skip_result(name, end) : name;
	size_t len = (size_t)(end - start) < n - 1 ? (size_t)(end - start) : n - 1;
	memcpy(buf, start, len);
	buf[len] = 0;
	return buf;
}

/* `f<int>` is an f. */
static void cut_template(char *name)
{
	size_t n = strlen(name);
	int angles = 0;

	if (!n || name[n - 1] != '>' || strstr(name, "operator"))
		return;
	while (n--) {
		angles += (name[n] == '>') - (name[n] == '<');
		if (!angles) {
			name[n] = 0;
			return;
		}
	}
}

static bool text_fits(const struct function_name *wanted, const char *text)
{
	return wanted->is_pattern ? !fnmatch(wanted->text, text, 0) : !strcmp(text, wanted->text);
}

/* In any scope: `f` fits `ns::f`, `b::f` fits `a::b::f`. */
static bool scoped_fits(const struct function_name *wanted, const char *name)
{
	int angles = 0;

	if (text_fits(wanted, name))
		return true;
	for (const char *p = name; *p; p++) {
		angles += (*p == '<') - (*p == '>');
		if (angles <= 0 && p[0] == ':' && p[1] == ':' && text_fits(wanted, p + 2))
			return true;
	}
	return false;
}

bool function_name_fits(const struct function_name *wanted, const char *name)
{
	char plain[1024];

	if (wanted->has_arguments)
		return scoped_fits(wanted, skip_result(name, name + strcspn(name, "(")));
	function_name_plain(name, plain, sizeof(plain));
	if (scoped_fits(wanted, plain))
		return true;
	cut_template(plain);
	return scoped_fits(wanted, plain);
}
