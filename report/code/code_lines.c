/* SPDX-License-Identifier: MIT */
/*
 * code_lines.c - the instructions of a line of source.
 *
 * A line has code at several locations: a loop's condition and its end, and copies of its function
 * in others. The first instruction in each function or copy is meant, as in debuggers. A line
 * without code stands for the next one that has some.
 */
#include "base/grow.h"
#include "report/code/code_sites_priv.h"
#include "report/dwarf/dies.h"
#include "report/path.h"
#include "report/safe/clean.h"
#include "report/safe/target_file.h"

#include <dwarf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096

struct code_row {
	int line;
	Dwarf_Addr pc; /* in the file */
	size_t unit;
	size_t file;
};

struct line_unit {
	Dwfl_Module *mod;
	Dwarf_Die die;
	Dwarf_Addr bias;
};

struct code_lines {
	struct symbols *s;
	char *file;
	bool is_path;
	size_t shared;	      /* components that the names of the rows share with a path */
	struct code_row *row; /* by line */
	size_t count;
	size_t room;
	struct line_unit *unit;
	size_t unit_count;
	/*
	 * In the unit that is read: whether the file of a row is wanted, which is asked once a
	 * file.
	 */
	const char *last_file;
	size_t last_shared;
	/* Another file of that name, which is not meant; empty: none was met. */
	char other[PATH_BYTES];
};

/* The innermost function or inlined copy at a location. */
static Dwarf_Off scope_of(Dwarf_Die *cu, Dwarf_Addr pc)
{
	Dwarf_Die die;

	return die_function_at(cu, pc, &die) ? dwarf_dieoffset(&die) : 0;
}

static int row_add(struct code_lines *l, int line, Dwarf_Addr pc)
{
	if (grow_room(l->row, l->count, l->room))
		return -ENOMEM;
	l->row[l->count++] = (struct code_row){ .line = line, .pc = pc, .unit = l->unit_count - 1 };
	return 0;
}

/* How well a file of the debug information fits; 0: it is another. */
static size_t file_fits(struct code_lines *l, Dwarf_Die *cu, const char *file)
{
	Dwarf_Attribute attribute;
	const char *folder;
	char path[PATH_BYTES];

	if (!l->is_path)
		return path_ends_in(file, l->file);
	if (!file || !path_ends_in(file, strrchr(l->file, '/') + 1))
		return 0;
	folder = *file != '/' && dwarf_attr(cu, DW_AT_comp_dir, &attribute) ?
			 clean_attribute(&attribute) :
			 NULL;
	snprintf(path, sizeof(path), "%s%s%s", folder ? folder : "", folder ? "/" : "", file);
	path_normalize(path);
	if (!strcmp(path, l->other))
		return 0;
	if (target_file_differs(path, l->file)) {
		snprintf(l->other, sizeof(l->other), "%s", path);
		return 0;
	}
	return path_shared_end(path, l->file);
}

/* Files of one name are in several folders: those that share most of the path are meant. */
static bool row_is_wanted(struct code_lines *l, Dwarf_Die *cu, Dwarf_Line *line)
{
	const char *file = clean_line_file(line);

	if (!file || file != l->last_file) {
		l->last_file = file;
		l->last_shared = file_fits(l, cu, file);
	}
	if (l->last_shared > l->shared) {
		l->shared = l->last_shared;
		l->count = 0;
	}
	return l->last_shared && l->last_shared == l->shared;
}

static int visit_unit(struct code_lines *l, Dwarf_Die *cu)
{
	Dwarf_Lines *table;
	size_t n;
	int err = 0;

	if (dwarf_getsrclines(cu, &table, &n))
		return 0;
	l->last_file = NULL;
	for (size_t i = 0; i < n && !err; i++) {
		Dwarf_Line *line = dwarf_onesrcline(table, i);
		Dwarf_Addr pc;
		bool is_statement;
		bool is_end;
		int number;
		if (dwarf_lineno(line, &number) || dwarf_linebeginstatement(line, &is_statement) ||
		    dwarf_lineendsequence(line, &is_end) || dwarf_lineaddr(line, &pc) || is_end)
			continue;
		/* A row without a number stays, as a sign that the file is there. */
		if (row_is_wanted(l, cu, line))
			err = row_add(l, is_statement ? number : 0, pc);
	}
	return err;
}

static int visit_module(Dwfl_Module *mod, void *arg)
{
	struct code_lines *l = arg;
	Dwarf_Addr bias;
	Dwarf *dwarf = dwfl_module_getdwarf(mod, &bias);
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	int err = 0;

	while (dwarf && !err && !dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &die, NULL)) {
		size_t before = l->count;
		struct line_unit *more = reallocarray(l->unit, l->unit_count + 1, sizeof(*l->unit));
		if (!more)
			return -ENOMEM;
		l->unit = more;
		l->unit[l->unit_count++] = (struct line_unit){ mod, die, bias };
		err = visit_unit(l, &die);
		if (!err && l->count == before)
			l->unit_count--;
	}
	return err;
}

static int by_line(const void *a, const void *b)
{
	const struct code_row *x = a;
	const struct code_row *y = b;

	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	if (x->unit != y->unit)
		return x->unit < y->unit ? -1 : 1;
	return (x->pc > y->pc) - (x->pc < y->pc);
}

int code_lines_open(struct symbols *s, const char *file, bool is_path, struct code_lines **out)
{
	struct code_lines *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->s = s;
	l->is_path = is_path && strchr(file, '/');
	l->file = strdup(file);
	if (l->file && l->is_path)
		path_normalize(l->file);
	int err = l->file ? symbols_each_module(s, NULL, visit_module, l) : -ENOMEM;
	if (err) {
		code_lines_close(l);
		return err;
	}
	if (l->count)
		qsort(l->row, l->count, sizeof(*l->row), by_line);
	*out = l;
	return 0;
}

void code_lines_close(struct code_lines *l)
{
	if (!l)
		return;
	free(l->file);
	free(l->row);
	free(l->unit);
	free(l);
}

static int add_site(struct code_lines *l, const struct code_row *row, struct code_sites *out)
{
	const struct line_unit *unit = &l->unit[row->unit];
	const char *file = l->is_path ? strrchr(l->file, '/') + 1 : l->file;
	struct code_site site = { .kind = CODE_SITE_LINE,
				  .address = row->pc + unit->bias,
				  .module = symbols_module_name(unit->mod),
				  .is_certain = true };
	char name[300];

	site.function = code_function_start(l->s, site.address, NULL);
	snprintf(name, sizeof(name), "%s:%d", file, row->line);
	/* The line a function begins with: it is the function that is meant. */
	if (site.function == site.address) {
		struct place place;
		symbols_place(l->s, site.address, &place);
		site.kind = CODE_SITE_FUNCTION;
		snprintf(name, sizeof(name), "%s", place.function ? place.function : "?");
	}
	return code_sites_add(out, site, name);
}

/* The rows of a line, by unit and address: the first one in each function or copy. */
static int add_first_of_each(struct code_lines *l, size_t at, struct code_sites *out)
{
	int line = l->row[at].line;
	size_t n = at;
	int err = 0;

	while (n < l->count && l->row[n].line == line)
		n++;
	Dwarf_Off *scope = calloc(n - at, sizeof(*scope));
	if (!scope)
		return -ENOMEM;
	for (size_t i = at; i < n && !err; i++) {
		struct line_unit *unit = &l->unit[l->row[i].unit];
		bool is_first = true;

		scope[i - at] = scope_of(&unit->die, l->row[i].pc);
		for (size_t k = at; k < i && is_first && scope[i - at]; k++)
			is_first = scope[k - at] != scope[i - at] ||
				   l->unit[l->row[k].unit].mod != unit->mod;
		if (is_first)
			err = add_site(l, &l->row[i], out);
	}
	free(scope);
	return err;
}

int code_lines_find(struct code_lines *l, int line, struct code_sites *out, char *why, size_t n)
{
	size_t low = 0;
	size_t high = l->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (l->row[middle].line < line)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < l->count) {
		out->other_line = l->row[low].line != line ? l->row[low].line : 0;
		return add_first_of_each(l, low, out);
	}
	if (l->count)
		snprintf(why, n, "%s has no code at line %d or behind it", l->file, line);
	else if (l->other[0])
		snprintf(why, n,
			 "%.200s is not a source of the program, which was built from another file "
			 "of that name: %.200s",
			 l->file, l->other);
	else
		snprintf(why, n,
			 "no source file is named '%s' in the debug information (DWARF) of the "
			 "program and its libraries%s",
			 l->file, dies_present(l->s, NULL) ? "" : "; the program has none");
	return -ENOENT;
}

int code_lines_at(struct code_lines *l, int line, struct code_sites *out, char *why, size_t n)
{
	int err = code_lines_find(l, line, out, why, n);

	if (err == -ENOMEM)
		snprintf(why, n, "out of memory");
	if (!err)
		code_sites_choose(l->s, out);
	return err;
}
