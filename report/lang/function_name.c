/* SPDX-License-Identifier: MIT */
/* function_name.c - names of functions as compilers, demanglers and people write them. */
#include "report/code/code_sites_priv.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
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

/* Opens or closes it something? Not the arrow of a result. */
static int angle(const char *p, const char *name)
{
	return *p == '<' ? 1 : *p == '>' && (p == name || p[-1] != '-') ? -1 : 0;
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
		angles += angle(p, name);
		if (*p == '(' && angles <= 0)
			return p;
	}
	return NULL;
}

/* Behind the result type, which is before the names of templates. */
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
		angles += angle(p, name);
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

static bool text_fits(const struct function_name *wanted, const char *text)
{
	return !strcmp(text, wanted->text) ||
	       (wanted->is_pattern && !fnmatch(wanted->text, text, 0));
}

/* In any scope: `f` fits `ns::f`, `b::f` fits `a::b::f`. */
static bool scoped_fits(const struct function_name *wanted, const char *name)
{
	int angles = 0;

	if (text_fits(wanted, name))
		return true;
	for (const char *p = name; *p; p++) {
		angles += angle(p, name);
		if (angles <= 0 && p[0] == ':' && p[1] == ':' && text_fits(wanted, p + 2))
			return true;
	}
	return false;
}

/*
 * `a::Ring<u64>::push` is a Ring::push. Also what Rust puts into <>, as in `<u8 as Shape>::area`,
 * is kept.
 */
static bool without_templates_fits(const struct function_name *wanted, const char *name)
{
	char form[1024];
	char *out = form;
	int angles = 0;

	if (strlen(name) >= sizeof(form))
		return false;
	for (const char *p = name; *p; p++) {
		int step = angle(p, name);
		angles += step > 0;
		if (!angles)
			*out++ = *p;
		angles += step < 0 ? step : 0;
	}
	*out = 0;
	return scoped_fits(wanted, form);
}

/* The parts of `<a::Sq as a::Shape>::area`; false: it is not a method of a trait. */
static bool split_trait(const char *name, char *type, char *trait, const char **rest)
{
	const char *as = NULL;
	const char *p = name + 1;

	if (name[0] != '<' || strlen(name) >= 1024)
		return false;
	for (int angles = 1; *p && angles; p++) {
		angles += angle(p, name);
		if (angles == 1 && !strncmp(p, " as ", 4))
			as = p;
	}
	if (!as || p[-1] != '>')
		return false;
	snprintf(type, 1024, "%.*s", (int)(as - name - 1), name + 1);
	snprintf(trait, 1024, "%.*s", (int)(p - 1 - (as + 4)), as + 4);
	*rest = p;
	return true;
}

static const char *last_part(const char *path)
{
	const char *last = path;
	int angles = 0;

	for (const char *p = path; *p; p++) {
		angles += angle(p, path);
		if (!angles && p[0] == ':' && p[1] == ':')
			last = p + 2;
	}
	return last;
}

/* `Sq::area`, `Shape::area` and `<Sq as Shape>::area` mean `<a::Sq as a::Shape>::area`. */
static bool trait_fits(const struct function_name *wanted, const char *name)
{
	char type[1024];
	char trait[1024];
	char form[2200];
	const char *rest;

	if (!split_trait(name, type, trait, &rest))
		return false;
	snprintf(form, sizeof(form), "<%s as %s>%s", last_part(type), last_part(trait), rest);
	if (text_fits(wanted, form))
		return true;
	snprintf(form, sizeof(form), "%s%s", type, rest);
	if (without_templates_fits(wanted, form))
		return true;
	snprintf(form, sizeof(form), "%s%s", trait, rest);
	return without_templates_fits(wanted, form);
}

/* Libraries of C++ have their names in an inner namespace that no source names. */
static const char *skip_inner(const char *p, const char *begin)
{
	static const char *const inner[] = { "__1::", "__ndk1::", "__cxx11::" };

	for (size_t i = 0;
	     p - begin >= 5 && !strncmp(p - 5, "std::", 5) && i < sizeof(inner) / sizeof(inner[0]);
	     i++)
		if (!strncmp(p, inner[i], strlen(inner[i])))
			return p + strlen(inner[i]);
	return p;
}

/*
 * Behind the arguments of a template that has values of its own for them: `Ring<int, 4>` is
 * Ring<int>.
 */
static const char *skip_rest(const char *p)
{
	int angles = 1;

	while (*p && angles) {
		angles += *p == '<' ? 1 : *p == '>' ? -1 : 0;
		p += angles != 0;
	}
	return p;
}

/* As people write it: without inner namespaces, blanks, and the last arguments of templates. */
static bool is_written(const char *wanted, const char *name)
{
	const char *begin = name;

	for (;; wanted++, name++) {
		wanted += strspn(wanted, " ");
		name += strspn(name, " ");
		name = skip_inner(name, begin);
		if (*wanted == '>' && *name == ',')
			name = skip_rest(name);
		if (*wanted != *name)
			return false;
		if (!*wanted)
			return true;
	}
}

static bool is_written_in_scope(const struct function_name *wanted, const char *name)
{
	int angles = 0;

	if (wanted->is_pattern)
		return false;
	if (is_written(wanted->text, name))
		return true;
	for (const char *p = name; *p; p++) {
		angles += angle(p, name);
		if (angles <= 0 && p[0] == ':' && p[1] == ':' && is_written(wanted->text, p + 2))
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
	/* Names by the hundred thousand are compared: most have neither. */
	if ((strchr(plain, '<') || strstr(plain, "std::")) && is_written_in_scope(wanted, plain))
		return true;
	if (!strchr(plain, '<') || strstr(plain, "operator"))
		return false;
	return trait_fits(wanted, plain) || without_templates_fits(wanted, plain);
}

/*
 * Makes app.Buf.put of `app.Buf!(int).put`; false: it has no arguments of templates, or is too
 * long.
 */
static bool without_arguments(const char *name, char *out, size_t n)
{
	int open = 0;

	if (!strstr(name, "!(") || strlen(name) >= n)
		return false;
	for (const char *p = name; *p; p++) {
		bool begins = p[0] == '!' && p[1] == '(';

		if (begins || (open && *p == '('))
			open++;
		if (!open)
			*out++ = *p;
		else if (*p == ')')
			open--;
		p += begins;
	}
	*out = 0;
	return true;
}

static bool dotted_fits(const struct function_name *wanted, const char *name)
{
	int open = 0;

	if (text_fits(wanted, name))
		return true;
	for (const char *p = name; *p; p++) {
		open += *p == '(' ? 1 : *p == ')' ? -1 : 0;
		if (!open && *p == '.' && text_fits(wanted, p + 1))
			return true;
	}
	return false;
}

bool function_name_fits_dotted(const struct function_name *wanted, const char *name)
{
	char form[1024];

	return dotted_fits(wanted, name) ||
	       (without_arguments(name, form, sizeof(form)) && dotted_fits(wanted, form));
}
