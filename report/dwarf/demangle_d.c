/* SPDX-License-Identifier: MIT */
/*
 * demangle_d.c - readable names of D: `_D3app4Conn4pushMFiZv` is app.Conn.push.
 *
 * Arguments are read past, as far as the name of a nested function is behind those of the one
 * around it. Those of a template are kept: app.twice!(int). A name refers to its own earlier parts,
 * so that it could stand for an endless one: the steps are counted. What is not understood stays as
 * it is.
 */
#include "report/dwarf/symbols_priv.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 1024u
#define NUMBER_MAX (1u << 30)
#define STEPS_MAX 4096u
#define DEPTH_MAX 24u

struct d_name {
	const char *start;
	const char *at;
	char text[NAME_BYTES];
	size_t length;
	unsigned int steps;
	unsigned int depth;
	bool is_quiet; /* what is read is not a part of the name */
	bool is_bad;
};

static bool d_type(struct d_name *d);
static bool d_qualified(struct d_name *d);
static bool d_rest(struct d_name *d);

static bool fail(struct d_name *d)
{
	d->is_bad = true;
	return false;
}

static bool put(struct d_name *d, const char *text, size_t n)
{
	if (d->is_quiet)
		return true;
	if (n >= sizeof(d->text) - d->length)
		return fail(d);
	memcpy(d->text + d->length, text, n);
	d->length += n;
	d->text[d->length] = '\0';
	return true;
}

static bool put_text(struct d_name *d, const char *text)
{
	return put(d, text, strlen(text));
}

static bool take(struct d_name *d, char c)
{
	if (*d->at != c)
		return false;
	d->at++;
	return true;
}

static bool number(struct d_name *d, size_t *out)
{
	if (!isdigit((unsigned char)*d->at))
		return fail(d);
	for (*out = 0; isdigit((unsigned char)*d->at); d->at++) {
		*out = *out * 10 + (size_t)(*d->at - '0');
		if (*out > NUMBER_MAX)
			return fail(d);
	}
	return true;
}

/* Behind a Q: how far back the part begins. Lower case is the last digit. */
static const char *reference(struct d_name *d)
{
	const char *q = d->at;
	size_t back = 0;

	for (d->at++; isupper((unsigned char)*d->at) && back < NAME_BYTES * 64; d->at++)
		back = back * 26 + (size_t)(*d->at - 'A');
	if (!islower((unsigned char)*d->at))
		return NULL;
	back = back * 26 + (size_t)(*d->at++ - 'a');
	return back && back <= (size_t)(q - d->start) ? q - back : NULL;
}

/* Reads a part that is further left. */
static bool referred(struct d_name *d, bool (*read)(struct d_name *))
{
	const char *from = reference(d);
	const char *behind = d->at;

	if (!from || d->depth >= DEPTH_MAX || d->steps++ > STEPS_MAX)
		return fail(d);
	d->depth++;
	d->at = from;
	bool is_read = read(d);
	d->depth--;
	d->at = behind;
	return is_read;
}

static bool d_value(struct d_name *d)
{
	size_t n;

	if (take(d, 'n'))
		return put_text(d, "null");
	if (strchr("awd", *d->at) && *d->at) {
		d->at++;
		if (!number(d, &n) || !take(d, '_') || strnlen(d->at, 2 * n) < 2 * n)
			return fail(d);
		d->at += 2 * n;
		return put_text(d, "\"...\"");
	}
	if (take(d, 'N') && !put_text(d, "-"))
		return false;
	take(d, 'i');
	const char *digits = d->at;
	return number(d, &n) && put(d, digits, (size_t)(d->at - digits));
}

static bool d_argument(struct d_name *d)
{
	take(d, 'H');
	if (take(d, 'T'))
		return d_type(d);
	if (take(d, 'S') && !strncmp(d->at, "_D", 2)) {
		d->at += 2;
		return d_qualified(d) && d_rest(d);
	}
	if (d->at[-1] == 'S')
		return d_qualified(d);
	if (!take(d, 'V'))
		return fail(d);
	bool was_quiet = d->is_quiet;
	d->is_quiet = true;
	bool is_read = d_type(d);
	d->is_quiet = was_quiet;
	return is_read && d_value(d);
}

static bool d_identifier(struct d_name *d);

/* Behind __T: the name and its arguments. */
static bool d_template(struct d_name *d)
{
	if (!d_identifier(d) || !put_text(d, "!("))
		return false;
	for (bool is_first = true; !take(d, 'Z'); is_first = false)
		if ((!is_first && !put_text(d, ", ")) || !d_argument(d))
			return false;
	return put_text(d, ")");
}

static bool d_plain(struct d_name *d, const char *name, size_t n)
{
	static const char *const words[][2] = { { "__ctor", "this" },
						{ "__dtor", "~this" },
						{ "__postblit", "this(this)" } };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strlen(words[i][0]) == n && !strncmp(name, words[i][0], n))
			return put_text(d, words[i][1]);
	return put(d, name, n);
}

static bool is_template(const char *at)
{
	return !strncmp(at, "__T", 3) || !strncmp(at, "__U", 3);
}

static bool d_identifier(struct d_name *d)
{
	size_t n;

	if (d->depth >= DEPTH_MAX || d->steps++ > STEPS_MAX)
		return fail(d);
	if (*d->at == 'Q')
		return referred(d, d_identifier);
	if (is_template(d->at)) {
		d->depth++;
		d->at += 3;
		bool is_read = d_template(d);
		d->depth--;
		return is_read;
	}
	if (!number(d, &n) || strnlen(d->at, n) < n)
		return fail(d);
	const char *name = d->at;
	if (n > 3 && is_template(name))
		return d_identifier(d) && d->at == name + n;
	d->at += n;
	return d_plain(d, name, n);
}

static bool is_identifier(const struct d_name *d)
{
	const char *at = d->at;

	if (*at != 'Q')
		return isdigit((unsigned char)*at) || is_template(at);
	/* A type may be referred to as well: a number is at the begin of a name. */
	struct d_name copy = { .start = d->start, .at = at };
	const char *to = reference(&copy);
	return to && isdigit((unsigned char)*to);
}

static void skip_modifiers(struct d_name *d)
{
	for (;;) {
		if (*d->at == 'O' || *d->at == 'x' || *d->at == 'y')
			d->at++;
		else if (!strncmp(d->at, "Ng", 2))
			d->at += 2;
		else
			return;
	}
}

/* Convention, attributes and arguments, without the result. */
static bool d_signature(struct d_name *d)
{
	if (!*d->at || !strchr("FUWVRY", *d->at))
		return fail(d);
	d->at++;
	while (*d->at == 'N' && d->at[1] && strchr("abcdefijlm", d->at[1]))
		d->at += 2;
	while (*d->at && !strchr("XYZ", *d->at)) {
		while (*d->at && (strchr("MJKLI", *d->at) || !strncmp(d->at, "Nk", 2)))
			d->at += *d->at == 'N' ? 2 : 1;
		if (!d_type(d))
			return false;
	}
	return *d->at++ ? true : fail(d);
}

/*
 * The signature of the function that has the next part of the name; where none follows, it is of no
 * use.
 */
static void skip_signature(struct d_name *d)
{
	struct d_name copy = {
		.start = d->start, .at = d->at, .steps = d->steps, .depth = d->depth
	};

	copy.is_quiet = true;
	if (take(&copy, 'M'))
		skip_modifiers(&copy);
	if (d_signature(&copy) && is_identifier(&copy))
		d->at = copy.at;
	d->steps = copy.steps;
}

static bool d_qualified(struct d_name *d)
{
	bool is_first = true;

	if (d->depth >= DEPTH_MAX)
		return fail(d);
	d->depth++;
	do {
		while (*d->at == '0')
			d->at++;
		if ((!is_first && !put_text(d, ".")) || !d_identifier(d))
			return false;
		is_first = false;
		skip_signature(d);
	} while (is_identifier(d));
	d->depth--;
	return true;
}

static bool d_behind(struct d_name *d, const char *text)
{
	return d_type(d) && put_text(d, text);
}

static bool d_around(struct d_name *d, const char *text)
{
	return put_text(d, text) && d_type(d) && put_text(d, ")");
}

/* Types whose words would be long are printed as `...`, in which nothing is read wrong. */
static bool d_in_short(struct d_name *d, char kind)
{
	bool was_quiet = d->is_quiet;
	bool is_read;
	size_t n;

	if (!put_text(d, "..."))
		return false;
	d->is_quiet = true;
	if (kind == 'H') {
		is_read = d_type(d) && d_type(d);
	} else if (kind == 'G') {
		is_read = number(d, &n) && d_type(d);
	} else if (kind == 'B') {
		is_read = true;
		while (is_read && !take(d, 'Z'))
			is_read = d_type(d);
	} else {
		skip_modifiers(d);
		is_read = d_signature(d) && d_type(d);
	}
	d->is_quiet = was_quiet;
	return is_read;
}

static bool d_basic(struct d_name *d, char kind)
{
	static const char *const names[] = {
		['v' - 'a'] = "void",	['g' - 'a'] = "byte",	      ['h' - 'a'] = "ubyte",
		['s' - 'a'] = "short",	['t' - 'a'] = "ushort",	      ['i' - 'a'] = "int",
		['k' - 'a'] = "uint",	['l' - 'a'] = "long",	      ['m' - 'a'] = "ulong",
		['f' - 'a'] = "float",	['d' - 'a'] = "double",	      ['e' - 'a'] = "real",
		['o' - 'a'] = "ifloat", ['p' - 'a'] = "idouble",      ['j' - 'a'] = "ireal",
		['q' - 'a'] = "cfloat", ['r' - 'a'] = "cdouble",      ['c' - 'a'] = "creal",
		['b' - 'a'] = "bool",	['a' - 'a'] = "char",	      ['u' - 'a'] = "wchar",
		['w' - 'a'] = "dchar",	['n' - 'a'] = "typeof(null)",
	};
	size_t i = (size_t)(kind - 'a');

	if (kind == 'z')
		return (*d->at == 'i' || *d->at == 'k') && d->at++ ? put_text(d, "cent") : fail(d);
	return islower((unsigned char)kind) && i < sizeof(names) / sizeof(names[0]) && names[i] ?
		       put_text(d, names[i]) :
		       fail(d);
}

static bool d_type_of(struct d_name *d, char kind)
{
	switch (kind) {
	case 'x':
		return d_around(d, "const(");
	case 'y':
		return d_around(d, "immutable(");
	case 'O':
		return d_around(d, "shared(");
	case 'A':
		return d_behind(d, "[]");
	case 'P':
		return d_behind(d, "*");
	case 'C':
	case 'S':
	case 'E':
	case 'T':
	case 'I':
		return d_qualified(d);
	case 'N':
		if (take(d, 'n'))
			return put_text(d, "noreturn");
		return take(d, 'g') ? d_around(d, "inout(") : take(d, 'h') ? d_type(d) : fail(d);
	case 'F':
	case 'U':
	case 'W':
	case 'V':
	case 'R':
	case 'Y':
		d->at--;
		return d_in_short(d, 'D');
	case 'D':
	case 'H':
	case 'G':
	case 'B':
		return d_in_short(d, kind);
	default:
		return d_basic(d, kind);
	}
}

static bool d_type(struct d_name *d)
{
	if (d->is_bad || !*d->at || d->depth >= DEPTH_MAX || d->steps++ > STEPS_MAX)
		return fail(d);
	if (*d->at == 'Q')
		return referred(d, d_type);
	d->depth++;
	bool is_read = d_type_of(d, *d->at++);
	d->depth--;
	return is_read;
}

bool demangle_is_d(const char *name)
{
	return name[0] == '_' && name[1] == 'D' &&
	       (isdigit((unsigned char)name[2]) || is_template(name + 2));
}

/* `f!(int).f` is f!(int): the second is the function in the template. */
static void join_templates(char *text)
{
	for (char *at = text; (at = strstr(at, ")."));) {
		char *end = at + 1;
		char *name = at;
		int open = 0;

		do {
			open += *name == ')' ? 1 : *name == '(' ? -1 : 0;
		} while (open && name-- > text);
		at += 2;
		if (name <= text || name[-1] != '!')
			continue;
		size_t length = 0;
		while (name - 2 - length >= text && name[-2 - (long)length] != '.' &&
		       name[-2 - (long)length] != '(')
			length++;
		if (length && !strncmp(end + 1, name - 1 - length, length) &&
		    (!end[1 + length] || end[1 + length] == '.')) {
			memmove(end, end + 1 + length, strlen(end + 1 + length) + 1);
			at = end;
		}
	}
}

/* Behind the name: the type of what it names, or a Z. */
static bool d_rest(struct d_name *d)
{
	bool was_quiet = d->is_quiet;
	bool is_read = true;

	if (take(d, 'Z'))
		return true;
	d->is_quiet = true;
	if (take(d, 'M'))
		skip_modifiers(d);
	if (*d->at && strchr("FUWVRY", *d->at))
		is_read = d_signature(d);
	is_read = is_read && d_type(d);
	d->is_quiet = was_quiet;
	return is_read;
}

char *demangle_d(const char *name)
{
	struct d_name d = { .start = name, .at = name + 2 };

	if (!demangle_is_d(name) || !d_qualified(&d) || !d_rest(&d) || d.is_bad ||
	    (*d.at && *d.at != '.')) /* compilers add parts with a dot */
		return NULL;
	join_templates(d.text);
	return strdup(d.text);
}
