/* SPDX-License-Identifier: MIT */
/* ada.c - see ada.h. The forms are those of GNAT's exp_dbug.ads. */
#include "report/dwarf/ada.h"

#include "report/dwarf/languages.h"
#include "report/dwarf/unit.h"
#include "report/safe/clean.h"

#include <ctype.h>
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

struct ada_object {
	struct ada_object *next;
	Dwfl_Module *mod;
	bool is_ada;
};

static void ada_forget(struct symbols *s)
{
	while (s->ada) {
		struct ada_object *o = s->ada;

		s->ada = o->next;
		free(o);
	}
}

/* What GNAT makes asks its runtime for something. */
static bool asks_for_runtime(Dwfl_Module *mod)
{
	int count = dwfl_module_getsymtab(mod);

	for (int i = 1; i < count; i++) {
		GElf_Sym sym;
		GElf_Addr address;
		const char *name = clean_symbol(mod, i, &sym, &address, NULL);

		if (name && !strncmp(name, "__gnat_", 7))
			return true;
	}
	return false;
}

static bool is_of_ada(struct symbols *s, Dwfl_Module *mod)
{
	struct ada_object *o = s->ada;

	while (o && o->mod != mod)
		o = o->next;
	if (o)
		return o->is_ada;
	o = calloc(1, sizeof(*o));
	if (!o)
		return false;
	*o = (struct ada_object){ s->ada, mod, asks_for_runtime(mod) };
	s->ada = o;
	symbols_on_close(s, ada_forget);
	return o->is_ada;
}

/* Parts in C of a program have such names too. */
static bool is_other_language(Dwfl_Module *mod, uint64_t address)
{
	Dwarf_Addr bias;
	Dwarf_Die *unit = unit_at(mod, address, &bias);
	int language = unit ? dwarf_srclang(unit) : -1;

	return unit && !language_is_ada(language);
}

/* Its end that the source has not: of a nested function, and the number of an overloaded one. */
static size_t without_numbers(const char *symbol)
{
	size_t n = strcspn(symbol, ".$@");
	size_t digits = n;

	while (digits && isdigit((unsigned char)symbol[digits - 1]))
		digits--;
	return digits < n && digits > 2 && symbol[digits - 1] == '_' && symbol[digits - 2] == '_' ?
		       digits - 2 :
		       n;
}

static const char *operator_of(const char *at, size_t *length)
{
	static const char *const names[][2] = {
		{ "Oabs", "\"abs\"" },	{ "Oand", "\"and\"" },	  { "Omod", "\"mod\"" },
		{ "Onot", "\"not\"" },	{ "Oor", "\"or\"" },	  { "Orem", "\"rem\"" },
		{ "Oxor", "\"xor\"" },	{ "Oeq", "\"=\"" },	  { "One", "\"/=\"" },
		{ "Olt", "\"<\"" },	{ "Ole", "\"<=\"" },	  { "Ogt", "\">\"" },
		{ "Oge", "\">=\"" },	{ "Oadd", "\"+\"" },	  { "Osubtract", "\"-\"" },
		{ "Oconcat", "\"&\"" }, { "Omultiply", "\"*\"" }, { "Odivide", "\"/\"" },
		{ "Oexpon", "\"**\"" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		*length = strlen(names[i][0]);
		if (!strncmp(at, names[i][0], *length) && !islower((unsigned char)at[*length]))
			return names[i][1];
	}
	return NULL;
}

/* A package in a body has an X behind it, with b and n. */
static size_t body_mark(const char *at)
{
	size_t n = *at == 'X' ? 1 + strspn(at + 1, "bn") : 0;

	return n && (at[n] == '_' || !at[n]) ? n : 0;
}

static bool decode(const char *symbol, size_t length, char *out, size_t n)
{
	size_t used = 0;

	for (size_t i = 0; i < length;) {
		const char *at = symbol + i;
		size_t step = 1;
		const char *text = NULL;

		if (used + 8 >= n)
			return false;
		if (i && !strncmp(at, "__", 2) && at[2] != '_' && i + 2 < length) {
			text = ".";
			step = 2;
		} else if (islower((unsigned char)*at) || isdigit((unsigned char)*at) ||
			   (*at == '_' && i && i + 1 < length && at[1] != '_' && at[-1] != '_')) {
			out[used++] = *at;
		} else if (used && out[used - 1] == '.' && (text = operator_of(at, &step))) {
			;
		} else if (used && (step = body_mark(at))) {
			text = "";
		} else {
			return false;
		}
		i += step;
		if (text)
			used += (size_t)snprintf(out + used, n - used, "%s", text);
	}
	out[used] = '\0';
	return used != 0;
}

const char *ada_decode(const char *symbol, char *buf, size_t n)
{
	symbol += strncmp(symbol, "_ada_", 5) ? 0 : 5;
	return decode(symbol, without_numbers(symbol), buf, n) ? buf : NULL;
}

const char *ada_name(struct symbols *s, Dwfl_Module *mod, uint64_t address, const char *symbol,
		     char *buf, size_t n)
{
	bool is_main = !strncmp(symbol, "_ada_", 5);

	if (!is_main && (!strstr(symbol, "__") || !islower((unsigned char)symbol[0])))
		return NULL;
	if (!mod || !is_of_ada(s, mod) || is_other_language(mod, address))
		return NULL;
	return ada_decode(symbol, buf, n);
}
