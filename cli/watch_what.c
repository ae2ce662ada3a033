// SPDX-License-Identifier: MIT
/*
 * watch_what.c - what the user wants watched: `0x601040:4`, `counter`, `libc.so.6:environ`,
 * `server+0x230:8`.
 */
#include "cli/cmd.h"
#include "cli/opts.h"
#include "cli/watch.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "watch"
#define LEN_MAX 32
#define REGISTERS 4

#if defined(__x86_64__)
static const bool reads_alone = false;
#else
static const bool reads_alone = true;
#endif

/* WHAT in its parts. */
struct parts {
	char name[256]; /* empty: an address */
	uint64_t offset; /* or the address */
	bool negative;
	bool has_offset;
	size_t len; /* 0: not given */
};

static int wrong_form(const char *what)
{
	return cli_wrong(COMMAND, "'%s' is no place in memory: give 0xADDRESS, symbol, "
			 "symbol+offset or module:symbol, and :len if wanted", what);
}

/* Cuts ":len" off the end. A module's ':' is followed by a name, never by a number alone. */
static int cut_len(char *text, struct parts *p)
{
	char *colon = strrchr(text, ':');
	unsigned long long len;

	if (!colon || !isdigit((unsigned char)colon[1]))
		return 0;
	if (opts_number(colon + 1, 10, &len))
		return 0;
	if (!len || len > LEN_MAX)
		return cli_wrong(COMMAND, "length %llu is not possible: 1 to %d bytes", len, LEN_MAX);
	p->len = (size_t)len;
	*colon = 0;
	return 0;
}

static int parse(const char *what, struct parts *p)
{
	unsigned long long number;

	memset(p, 0, sizeof(*p));
	if (strlen(what) >= sizeof(p->name))
		return wrong_form(what);
	strcpy(p->name, what);
	int status = cut_len(p->name, p);
	if (status)
		return status;
	if (isdigit((unsigned char)p->name[0])) {
		if (opts_number(p->name, 0, &number))
			return wrong_form(what);
		p->offset = number;
		p->name[0] = 0;
		return 0;
	}
	char *sign = strrchr(p->name, '+');
	if (!sign && (sign = strrchr(p->name, '-')) != NULL && !isdigit((unsigned char)sign[1]))
		sign = NULL; /* a module's name: ld-linux */
	if (sign) {
		if (opts_number(sign + 1, 0, &number))
			return wrong_form(what);
		p->negative = *sign == '-';
		p->offset = number;
		p->has_offset = true;
		*sign = 0;
	}
	return p->name[0] ? 0 : wrong_form(what);
}

static int parse_access(const char *on, enum trapline_access *out)
{
	if (!on || !strcmp(on, "w")) {
		*out = TRAPLINE_WRITE;
	} else if (!strcmp(on, "rw") || !strcmp(on, "wr")) {
		*out = TRAPLINE_READ_WRITE;
	} else if (!strcmp(on, "r")) {
		*out = TRAPLINE_READ;
		if (!reads_alone)
			return cli_wrong(COMMAND, "--on r: this processor cannot watch reads "
					 "alone; use --on rw");
	} else {
		return cli_wrong(COMMAND, "--on wants r, w or rw, not '%s'", on);
	}
	return 0;
}

int watch_what_check(const struct watch_settings *set)
{
	enum trapline_access access;
	struct parts p;
	int status = parse_access(set->on, &access);

	return status ? status : parse(set->what, &p);
}

/* `server.dirty`, where `server` is there: the symbol table does not know members. */
static bool names_member(struct symbols *s, const char *name)
{
	char variable[256];
	struct variable v;
	size_t n = strcspn(name, ".");

	if (!n || !name[n] || n >= sizeof(variable))
		return false;
	memcpy(variable, name, n);
	variable[n] = 0;
	return !symbols_find(s, variable, &v) && !v.is_function;
}

static int unknown_symbol(struct symbols *s, const char *name)
{
	const char *near[3];
	size_t n = symbols_near(s, name, near, 3);

	if (names_member(s, name))
		return cli_wrong(COMMAND, "no symbol '%s' in the target: members are not known by name; "
				 "give %.*s+offset:len", name, (int)strcspn(name, "."), name);

	if (n == 0)
		return cli_wrong(COMMAND, "no symbol '%s' in the target: is it spelled so, and is the "
				 "program stripped? An address always works", name);
	return cli_wrong(COMMAND, "no symbol '%s' in the target; did you mean %s%s%s%s%s?", name,
			 near[0], n > 1 ? ", " : "", n > 1 ? near[1] : "", n > 2 ? ", " : "",
			 n > 2 ? near[2] : "");
}

static int find_symbol(struct symbols *s, const struct parts *p, struct variable *v)
{
	int err = symbols_find(s, p->name, v);

	if (err == -EDOM)
		return cli_wrong(COMMAND, "'%s' is thread-local: each thread has its own; give the "
				 "address of one", p->name);
	if (err == -ENOTUNIQ)
		cli_note(COMMAND, "several local symbols are named %s: watching the first, at 0x%llx; "
			 "give an address to choose another", p->name,
			 (unsigned long long)v->address);
	else if (err)
		return unknown_symbol(s, p->name);
	if (v->is_function)
		return cli_wrong(COMMAND, "'%s' is a function, and watch takes data; to watch its "
				 "bytes all the same, give the address 0x%llx", p->name,
				 (unsigned long long)v->address);
	return 0;
}

/* How many debug registers the range takes: its naturally aligned parts. */
static unsigned int parts_of(uint64_t address, size_t len)
{
	unsigned int count = 0;

	while (len) {
		size_t part = 8;
		while (part > len || address % part)
			part /= 2;
		address += part;
		len -= part;
		count++;
	}
	return count;
}

/* Without :len: the whole variable where it fits, else what is aligned at that place. */
static size_t default_len(const struct parts *p, const struct variable *v, uint64_t address)
{
	uint64_t rest = v->size && p->offset < v->size && !p->negative ? v->size - p->offset : 0;

	if (!p->has_offset && v->size && v->size <= LEN_MAX &&
	    parts_of(address, v->size) <= REGISTERS)
		return v->size;
	size_t len = 8;
	while (len > 1 && (address % len || (rest && len > rest)))
		len /= 2;
	if (!p->has_offset && v->size > len)
		cli_note(COMMAND, "%s has %llu bytes: watching the first %zu; choose others by "
			 "%s+offset:len", p->name, (unsigned long long)v->size, len, p->name);
	return len;
}

int watch_what_resolve(struct symbols *s, const struct watch_settings *set,
		       struct watch_what *out)
{
	struct parts p;
	struct variable v = { 0 };
	int status = parse_access(set->on, &out->access);

	if (!status)
		status = parse(set->what, &p);
	if (!status && p.name[0])
		status = find_symbol(s, &p, &v);
	if (status)
		return status;
	out->address = p.negative ? v.address - p.offset : v.address + p.offset;
	out->len = p.len ? p.len : default_len(&p, &v, out->address);
	if (parts_of(out->address, out->len) > REGISTERS)
		return cli_wrong(COMMAND, "%zu bytes at 0x%llx take %u debug registers and there are "
				 "%d: choose fewer bytes or an aligned start", out->len,
				 (unsigned long long)out->address, parts_of(out->address, out->len),
				 REGISTERS);

	struct place place;
	symbols_data_place(s, out->address, &place);
	out->module = v.module ? v.module : place.module;
	if (p.name[0])
		snprintf(out->name, sizeof(out->name), "%.*s", (int)strcspn(set->what, "\n"),
			 set->what);
	else
		watch_format_place(&place, out->address, out->name, sizeof(out->name));
	return 0;
}
