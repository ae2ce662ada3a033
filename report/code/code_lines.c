/* SPDX-License-Identifier: MIT */
/*
 * code_lines.c - the instructions of a line of source.
 *
 * A line has code at several places: a loop's condition and its end, and copies of its function in
 * others. The first instruction in each function or copy is meant, as in debuggers. A line without
 * code stands for the next one that has some.
 */
#include "report/code/code_sites_priv.h"
#include "report/dwarf/dies.h"
#include "report/path.h"
#include "report/safe/clean.h"

#include <dwarf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct found_line {
	uint64_t address;
	Dwarf_Off scope; /* the function or copy it is in */
};

struct lines {
	struct symbols *s;
	const char *file;
	int wanted;
	int best; /* the smallest line from wanted on that has code; INT_MAX: none */
	bool collect;
	bool has_file;
	struct code_sites *out;
	struct found_line *found; /* of one object */
	size_t count;
	size_t room;
	int err;
};

/* The innermost function or inlined copy at a place. */
static Dwarf_Off scope_of(Dwarf_Die *cu, Dwarf_Addr pc)
{
	Dwarf_Die die;

	return die_function_at(cu, pc, &die) ? dwarf_dieoffset(&die) : 0;
}

static int lines_keep(struct lines *l, uint64_t address, Dwarf_Off scope)
{
	for (size_t i = 0; i < l->count; i++) {
		struct found_line *f = &l->found[i];
		if (f->scope != scope || !scope)
			continue;
		f->address = address < f->address ? address : f->address;
		return 0;
	}
	if (l->count == l->room) {
		size_t room = l->room ? 2 * l->room : 16;
		struct found_line *more = realloc(l->found, room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		l->found = more;
		l->room = room;
	}
	l->found[l->count++] = (struct found_line){ address, scope };
	return 0;
}

static void visit_unit(struct lines *l, Dwarf_Die *cu, Dwarf_Addr bias)
{
	Dwarf_Lines *table;
	size_t n;

	if (dwarf_getsrclines(cu, &table, &n))
		return;
	for (size_t i = 0; i < n && !l->err; i++) {
		Dwarf_Line *line = dwarf_onesrcline(table, i);
		Dwarf_Addr pc;
		bool is_statement;
		bool is_end;
		int number;
		if (dwarf_lineno(line, &number) || dwarf_linebeginstatement(line, &is_statement) ||
		    dwarf_lineendsequence(line, &is_end) || dwarf_lineaddr(line, &pc) || is_end)
			continue;
		if (!path_ends_in(clean_line_file(line), l->file))
			continue;
		l->has_file = true;
		if (!is_statement || !number || number < l->wanted)
			continue;
		if (!l->collect)
			l->best = number < l->best ? number : l->best;
		else if (number == l->best)
			l->err = lines_keep(l, pc + bias, scope_of(cu, pc));
	}
}

static int visit_module(Dwfl_Module *mod, void *arg)
{
	struct lines *l = arg;
	Dwarf_Addr bias;
	Dwarf *dwarf = dwfl_module_getdwarf(mod, &bias);
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;
	char name[300];

	l->count = 0;
	while (dwarf && !l->err && !dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, NULL))
		visit_unit(l, &unit, bias);
	for (size_t i = 0; i < l->count && !l->err; i++) {
		struct code_site site = { .kind = CODE_SITE_LINE,
					  .address = l->found[i].address,
					  .module = symbols_module_name(mod),
					  .is_certain = true };
		site.function = code_function_start(l->s, site.address, NULL);
		snprintf(name, sizeof(name), "%s:%d", l->file, l->best);
		/* The line a function begins with: it is the function that is meant. */
		if (site.function == site.address) {
			struct place place;
			symbols_place(l->s, site.address, &place);
			site.kind = CODE_SITE_FUNCTION;
			snprintf(name, sizeof(name), "%s", place.function ? place.function : "?");
		}
		l->err = code_sites_add(l->out, site, name);
	}
	return l->err;
}

int code_lines_find(struct symbols *s, const char *file, int line, struct code_sites *out,
		    char *why, size_t n)
{
	struct lines l = { .s = s, .file = file, .wanted = line, .best = INT_MAX, .out = out };

	symbols_each_module(s, NULL, visit_module, &l);
	l.collect = true;
	if (l.best != INT_MAX)
		symbols_each_module(s, NULL, visit_module, &l);
	free(l.found);
	if (l.err)
		return l.err;
	if (l.best == INT_MAX && l.has_file)
		snprintf(why, n, "%s has no code at line %d or behind it", file, line);
	else if (l.best == INT_MAX)
		snprintf(why, n,
			 "no source file is named '%s' in the debug information (DWARF) of the "
			 "program and its libraries%s",
			 file, dies_present(s, NULL) ? "" : "; the program has none");
	if (l.best == INT_MAX)
		return -ENOENT;
	out->other_line = l.best != line ? l.best : 0;
	return 0;
}
