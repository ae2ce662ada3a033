/* SPDX-License-Identifier: MIT */
/* dap_tree.c - see dap_tree.h. */
#include "cli/dap/dap_tree.h"

#include "base/grow.h"
#include "cli/dap/dap_hit.h"
#include "report/dwarf/variables.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECTS_MAX 1024
#define VALUES_MAX 16384 /* branches of values that are remembered; older ones are opened again */
#define VALUES_FIRST (1 << 24)
#define LOOK_EVERY 512 /* variables, between inspects what the process does */

/* The variables of one object, by file and name. */
struct object_variables {
	const char *name; /* of the object */
	bool is_read;
	struct named_variable *variable;
	size_t count;
	size_t room;
};

/* Some of these variables: those of a file, or a part of them. */
struct branch {
	struct object_variables *object;
	size_t first;
	size_t count;
	bool is_object; /* all of it: its rows are files */
};

struct value {
	int number;
	const struct type *type;
	uint64_t address;
	char *expression;
};

struct dap_tree {
	struct object_variables object[OBJECTS_MAX];
	size_t objects;
	struct branch *branch; /* its number is the index and DAP_TREE_ROOT + 1 */
	size_t branches;
	size_t room;
	struct value value[VALUES_MAX];
	int next_value;
};

static struct dap_tree *tree_of(struct dap *d)
{
	if (!d->tree)
		d->tree = calloc(1, sizeof(*d->tree));
	return d->tree;
}

void dap_tree_free(struct dap *d)
{
	struct dap_tree *t = d->tree;

	if (!t)
		return;
	for (size_t i = 0; i < t->objects; i++)
		free(t->object[i].variable);
	for (size_t i = 0; i < VALUES_MAX; i++)
		free(t->value[i].expression);
	free(t->branch);
	free(t);
	d->tree = NULL;
}

/* The number of a group, which stays the same. 0: no memory. */
static int branch_of(struct dap_tree *t, struct branch wanted)
{
	for (size_t i = 0; i < t->branches; i++) {
		const struct branch *b = &t->branch[i];
		if (b->object == wanted.object && b->first == wanted.first &&
		    b->count == wanted.count && b->is_object == wanted.is_object)
			return DAP_TREE_ROOT + 1 + (int)i;
	}
	if (grow_room(t->branch, t->branches, t->room))
		return 0;
	t->branch[t->branches] = wanted;
	return DAP_TREE_ROOT + 1 + (int)t->branches++;
}

struct reading {
	struct dap *d;
	struct object_variables *object;
	size_t seen;
};

static int variable_visit(const struct named_variable *v, void *arg)
{
	struct reading *r = arg;
	struct object_variables *o = r->object;

	if (++r->seen % LOOK_EVERY == 0)
		dap_hit_meanwhile(r->d);
	if (grow_room(o->variable, o->count, o->room))
		return -ENOMEM;
	o->variable[o->count++] = *v;
	return 0;
}

static const char *file_of(const struct named_variable *v)
{
	return v->file ? v->file : "";
}

static int variable_compare(const void *a, const void *b)
{
	const struct named_variable *x = a;
	const struct named_variable *y = b;
	int files = strcmp(file_of(x), file_of(y));
	int names = files ? files : strcmp(x->name, y->name);

	return names ? names : (x->address > y->address) - (x->address < y->address);
}

/* Each once: a header's variable may be in the debug information of many units. */
static void object_sort(struct object_variables *o)
{
	size_t kept = 0;

	if (o->count)
		qsort(o->variable, o->count, sizeof(*o->variable), variable_compare);
	for (size_t i = 0; i < o->count; i++)
		if (!kept || variable_compare(&o->variable[kept - 1], &o->variable[i]))
			o->variable[kept++] = o->variable[i];
	o->count = kept;
}

static void object_read(struct dap *d, struct object_variables *o)
{
	struct reading r = { .d = d, .object = o };
	char pattern[300];

	if (o->is_read)
		return;
	o->is_read = true;
	snprintf(pattern, sizeof(pattern), "%s:*", o->name);
	variables_list(d->symbols, pattern, true, variable_visit, &r);
	object_sort(o);
}

/* New objects come behind those that were there. */
static void objects_read(struct dap *d, struct dap_tree *t)
{
	const char *names[OBJECTS_MAX];

	symbols_refresh(d->symbols);
	size_t n = symbols_objects(d->symbols, names, OBJECTS_MAX);
	for (size_t i = 0; i < n && t->objects < OBJECTS_MAX; i++) {
		size_t k = 0;
		while (k < t->objects && strcmp(t->object[k].name, names[i]) != 0)
			k++;
		if (k == t->objects)
			t->object[t->objects++].name = names[i];
	}
}

static int visit_objects(struct dap *d, struct dap_tree *t, dap_row_visitor visit, void *arg)
{
	int result = 0;

	objects_read(d, t);
	for (size_t i = 0; i < t->objects && !result; i++) {
		struct dap_row row = { .branch = branch_of(t,
							   (struct branch){ .object = &t->object[i],
									    .is_object = true }) };
		snprintf(row.name, sizeof(row.name), "%s", t->object[i].name);
		result = visit(d, &row, arg);
	}
	return result;
}

static int visit_files(struct dap *d, struct dap_tree *t, struct object_variables *o,
		       dap_row_visitor visit, void *arg)
{
	int result = 0;
	size_t next;

	object_read(d, o);
	for (size_t i = 0; i < o->count && !result; i = next) {
		const char *file = file_of(&o->variable[i]);
		for (next = i + 1; next < o->count; next++)
			if (strcmp(file_of(&o->variable[next]), file) != 0)
				break;
		struct branch files = { .object = o, .first = i, .count = next - i };
		struct dap_row row = { .branch = branch_of(t, files) };
		snprintf(row.name, sizeof(row.name), "%.290s",
			 *file ? file : "without debug information");
		result = visit(d, &row, arg);
	}
	return result;
}

/* `a to b` of so many that a page would not show them. */
static int visit_pages(struct dap *d, struct dap_tree *t, struct branch all, dap_row_visitor visit,
		       void *arg)
{
	int result = 0;

	for (size_t i = 0; i < all.count && !result; i += DAP_TREE_PAGE) {
		struct branch page = { .object = all.object,
				       .first = all.first + i,
				       .count = all.count - i < DAP_TREE_PAGE ? all.count - i :
										DAP_TREE_PAGE };
		struct dap_row row = { .branch = branch_of(t, page) };
		const struct named_variable *v = &all.object->variable[page.first];
		snprintf(row.name, sizeof(row.name), "%.140s to %.140s", v->name,
			 v[page.count - 1].name);
		result = visit(d, &row, arg);
	}
	return result;
}

/* One value that others may have the name of is named with its file or object. */
static void variable_expression(const struct named_variable *v, char *buf, size_t n)
{
	const char *file = v->file ? strrchr(v->file, '/') : NULL;

	if (v->is_global || strstr(v->name, "::"))
		snprintf(buf, n, "%s", v->name);
	else if (v->file)
		snprintf(buf, n, "%s:%s", file ? file + 1 : v->file, v->name);
	else
		snprintf(buf, n, "%s:%s", v->module ? v->module : "", v->name);
}

static int visit_variables(struct dap *d, struct branch b, dap_row_visitor visit, void *arg)
{
	int result = 0;

	for (size_t i = b.first; i < b.first + b.count && !result; i++) {
		const struct named_variable *v = &b.object->variable[i];
		struct dap_row row = {
			.is_value = true,
			.place = { .address = v->address, .size = v->size, .type = v->type }
		};
		snprintf(row.name, sizeof(row.name), "%s", v->name);
		variable_expression(v, row.expression, sizeof(row.expression));
		if (v->where == VARIABLE_THREAD)
			row.why_not = "in each thread another: watch it by --thread";
		else
			row.branch = dap_tree_branch(d, &row.place, row.expression, &row.elements);
		result = visit(d, &row, arg);
	}
	return result;
}

/* A name that does not fit is left out: a shorter one would mean another thing. */
__attribute__((format(printf, 3, 4))) static void
set_expression(struct dap_row *row, const struct value *of, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int used = vsnprintf(row->expression, sizeof(row->expression), format, args);
	va_end(args);
	if (!of->expression[0] || used >= (int)sizeof(row->expression))
		row->expression[0] = 0;
}

/* `a.b`, `a->b` and `(*a)[0]`: a star binds less than what is behind. */
static void begin_path(const struct value *v, const char *join, char *buf, size_t n)
{
	bool is_bound = v->expression[0] != '*';

	snprintf(buf, n, "%s%s%s%s", is_bound ? "" : "(", v->expression, is_bound ? "" : ")", join);
}

static int visit_members(struct dap *d, const struct value *v, const char *join,
			 dap_row_visitor visit, void *arg)
{
	char path[520];
	size_t n;
	const struct type_member *m = type_members(v->type, &n);
	int result = 0;

	begin_path(v, join, path, sizeof(path));
	for (size_t i = 0; i < n && !result; i++) {
		struct dap_row row = { .is_value = true,
				       .place = { .address = v->address + m[i].offset,
						  .size = m[i].type->size,
						  .type = m[i].type,
						  .bit_offset = m[i].bit_offset,
						  .bit_size = m[i].bit_size } };
		bool is_named = m[i].name && !m[i].is_base;
		if (m[i].bit_size)
			row.place.size = (m[i].bit_offset + m[i].bit_size + 7) / 8;
		snprintf(row.name, sizeof(row.name), "%s",
			 m[i].name    ? m[i].name :
			 m[i].is_base ? m[i].type->name :
					"(anonymous)");
		/* The members of an unnamed part, and of a base, are those of the whole. */
		if (is_named)
			set_expression(&row, v, "%s%s", path, m[i].name);
		else
			set_expression(&row, v, "%s", v->expression);
		if (m[i].vtable_offset)
			row.why_not = "a virtual base: its location is not looked up";
		else
			row.branch = dap_tree_branch(d, &row.place, row.expression, &row.elements);
		if (!is_named)
			row.expression[0] = 0;
		result = visit(d, &row, arg);
	}
	return result;
}

static int visit_elements(struct dap *d, const struct value *v, uint64_t start, uint64_t count,
			  dap_row_visitor visit, void *arg)
{
	const struct type *element = type_target(v->type);
	uint64_t end = v->type->count;
	char path[520];
	int result = 0;

	begin_path(v, "", path, sizeof(path));
	count = count && count < DAP_TREE_ROWS ? count : DAP_TREE_ROWS;
	if (start < end && end - start > count)
		end = start + count;
	for (uint64_t i = start; i < end && !result; i++) {
		struct dap_row row = { .is_value = true,
				       .place = { .address = v->address + i * element->size,
						  .size = element->size,
						  .type = element } };
		snprintf(row.name, sizeof(row.name), "[%" PRIu64 "]", i);
		set_expression(&row, v, "%s[%" PRIu64 "]", path, i);
		row.branch = dap_tree_branch(d, &row.place, row.expression, &row.elements);
		result = visit(d, &row, arg);
	}
	return result;
}

/* What a pointer leads to, as it is now. A reference is followed without a star. */
static int visit_target(struct dap *d, const struct value *v, dap_row_visitor visit, void *arg)
{
	const struct type *target = type_target(v->type);
	bool is_pointer = v->type->kind == TYPE_POINTER;
	uint64_t address;

	if (symbols_read(d->symbols, v->address, &address, sizeof(address)) || !address)
		return 0;
	struct value whole = { .type = target, .address = address, .expression = v->expression };
	if (type_has_members(target))
		return visit_members(d, &whole, is_pointer ? "->" : ".", visit, arg);
	struct dap_row row = { .is_value = true,
			       .name = "*",
			       .place = {
				       .address = address, .size = target->size, .type = target } };
	set_expression(&row, v, "%s%s", is_pointer ? "*" : "", v->expression);
	row.branch = dap_tree_branch(d, &row.place, row.expression, &row.elements);
	return visit(d, &row, arg);
}

static int visit_value(struct dap *d, const struct value *from, uint64_t start, uint64_t count,
		       dap_row_visitor visit, void *arg)
{
	/* Its slot may be taken by a branch of its own rows. */
	struct value v = *from;
	int result;

	v.expression = strdup(from->expression);
	if (!v.expression)
		return -ENOMEM;
	if (v.type->kind == TYPE_ARRAY)
		result = visit_elements(d, &v, start, count, visit, arg);
	else if (type_has_members(v.type))
		result = visit_members(d, &v, ".", visit, arg);
	else
		result = visit_target(d, &v, visit, arg);
	free(v.expression);
	return result;
}

int dap_tree_each(struct dap *d, int number, uint64_t start, uint64_t count, dap_row_visitor visit,
		  void *arg)
{
	struct dap_tree *t = tree_of(d);

	if (!t)
		return -ENOMEM;
	if (number == DAP_TREE_ROOT)
		return visit_objects(d, t, visit, arg);
	if (number >= VALUES_FIRST) {
		const struct value *v = &t->value[number % VALUES_MAX];
		return v->number == number ? visit_value(d, v, start, count, visit, arg) : -ENOENT;
	}
	if (number <= DAP_TREE_ROOT || (size_t)(number - DAP_TREE_ROOT - 1) >= t->branches)
		return -ENOENT;
	struct branch b = t->branch[number - DAP_TREE_ROOT - 1];
	if (b.is_object)
		return visit_files(d, t, b.object, visit, arg);
	return b.count > 2 * DAP_TREE_PAGE ? visit_pages(d, t, b, visit, arg) :
					     visit_variables(d, b, visit, arg);
}

static bool has_rows(const struct type *t, uint64_t *elements)
{
	const struct type *target;

	if (!t)
		return false;
	switch (t->kind) {
	case TYPE_STRUCT:
	case TYPE_UNION:
		return true;
	case TYPE_ARRAY:
		target = type_target(t);
		*elements = target->size ? t->count : 0;
		return *elements && !(target->kind == TYPE_CHARACTER && target->size == 1);
	case TYPE_POINTER:
	case TYPE_REFERENCE:
		target = type_target(t);
		return target->size && target->kind != TYPE_CHARACTER;
	default:
		return false;
	}
}

int dap_tree_branch(struct dap *d, const struct expression_place *place, const char *expression,
		    uint64_t *elements)
{
	struct dap_tree *t = tree_of(d);

	*elements = 0;
	if (!t || !has_rows(place->type, elements) || place->bit_size)
		return 0;
	char *copy = strdup(expression);
	if (!copy)
		return 0;
	int number = VALUES_FIRST + t->next_value;
	t->next_value = (t->next_value + 1) % VALUES_FIRST;
	struct value *v = &t->value[number % VALUES_MAX];
	free(v->expression);
	*v = (struct value){
		.number = number, .type = place->type, .address = place->address, .expression = copy
	};
	return number;
}
