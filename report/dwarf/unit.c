/* SPDX-License-Identifier: MIT */
/* unit.c - compilation units by their ranges, where there is no .debug_aranges. */
#include "report/dwarf/unit.h"
#include "base/grow.h"
#include "report/safe/clean.h"

#include "report/dwarf/symbols_priv.h"
#include "report/safe/busy.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

struct row {
	Dwarf_Addr start; /* in the file */
	Dwarf_Addr end;
	Dwarf_Die *unit;
	Dwarf_Addr bias;
};

/* the units of a module */
struct units {
	struct units *next;
	Dwfl_Module *mod;
	size_t count;
	size_t capacity;
	struct row *rows;
};

static void add_row(struct units *units, const struct row *row)
{
	if (grow_room(units->rows, units->count, units->capacity))
		return;
	units->rows[units->count++] = *row;
}

static void add_unit(struct units *units, Dwarf_Die *unit, Dwarf_Addr bias)
{
	struct row row = { .unit = unit, .bias = bias };
	Dwarf_Addr base;

	/* What the linker has left out begins at 0. */
	for (ptrdiff_t at = 0; (at = dwarf_ranges(unit, at, &base, &row.start, &row.end)) > 0;)
		if (row.start && row.start < row.end)
			add_row(units, &row);
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a;
	const struct row *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static void unit_forget(struct symbols *s)
{
	while (s->units) {
		struct units *next = s->units->next;

		free(s->units->rows);
		free(s->units);
		s->units = next;
	}
}

static struct units *units_of(Dwfl_Module *mod)
{
	void **userdata = NULL;
	Dwarf_Die *unit = NULL;
	Dwarf_Addr bias;

	dwfl_module_info(mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
	struct symbols *s = userdata ? *userdata : NULL;
	struct units *units = s ? s->units : NULL;
	while (units && units->mod != mod)
		units = units->next;
	if (units || !s)
		return units;
	units = calloc(1, sizeof(*units));
	if (!units)
		return NULL;
	units->mod = mod;
	units->next = s->units;
	s->units = units;
	symbols_on_close(s, unit_forget);
	while ((unit = dwfl_module_nextcu(mod, unit, &bias)))
		add_unit(units, unit, bias);
	if (units->count)
		qsort(units->rows, units->count, sizeof(*units->rows), compare_rows);
	return units;
}

static const struct row *find_row(const struct units *units, Dwarf_Addr address)
{
	size_t low = 0;
	size_t high = units ? units->count : 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct row *row = &units->rows[middle];

		if (row->start + row->bias <= address)
			low = middle + 1;
		else
			high = middle;
	}
	const struct row *row = low ? &units->rows[low - 1] : NULL;
	return row && address < row->end + row->bias ? row : NULL;
}

Dwarf_Die *unit_at(Dwfl_Module *mod, Dwarf_Addr address, Dwarf_Addr *bias)
{
	BUSY;
	Dwarf_Die *unit = mod ? dwfl_module_addrdie(mod, address, bias) : NULL;

	if (unit || !mod)
		return unit;
	const struct row *row = find_row(units_of(mod), address);
	if (!row)
		return NULL;
	*bias = row->bias;
	return row->unit;
}

const char *unit_line(Dwfl_Module *mod, Dwarf_Addr address, int *line, const char **folder)
{
	BUSY;
	Dwfl_Line *found = mod ? dwfl_module_getsrc(mod, address) : NULL;
	Dwarf_Attribute attribute;
	Dwarf_Addr bias;

	if (found) {
		*folder = clean_name(dwfl_line_comp_dir(found));
		return clean_line_info(found, line);
	}
	Dwarf_Die *unit = unit_at(mod, address, &bias);
	Dwarf_Line *row = unit ? dwarf_getsrc_die(unit, address - bias) : NULL;
	if (!row || dwarf_lineno(row, line))
		return NULL;
	*folder = dwarf_attr(unit, DW_AT_comp_dir, &attribute) ? clean_attribute(&attribute) : NULL;
	return clean_line_file(row);
}

const char *unit_whole_path(const char *file, const char *folder)
{
	char path[PATH_MAX];

	if (!file || *file == '/' || !folder || *folder != '/' ||
	    (size_t)snprintf(path, sizeof(path), "%s/%s", folder, file) >= sizeof(path))
		return file;
	return clean_keep(path);
}
