/* SPDX-License-Identifier: MIT */
/* dap_variables.c - the requests for variables: rows of the tree with their values now. */
#include "cli/dap/dap_hit.h"
#include "cli/dap/dap_tree.h"
#include "report/run/run.h"
#include "report/safe/clean.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define VALUE_BYTES 2000
#define LOOK_EVERY 64

static json_t *row_json(struct dap *d, const struct dap_row *row)
{
	char value[VALUE_BYTES] = "";
	char address[32];

	if (row->why_not)
		snprintf(value, sizeof(value), "<%s>", row->why_not);
	else if (row->is_value)
		hit_place_text(d->symbols, &row->place, row->place.address, value, sizeof(value));
	clean_text(value);
	json_t *j = json_object();
	json_object_set_new(j, "name", run_json_text(row->name));
	json_object_set_new(j, "value", run_json_text(value));
	json_object_set_new(j, "variablesReference", json_integer(row->branch));
	if (row->elements)
		json_object_set_new(j, "indexedVariables", json_integer((json_int_t)row->elements));
	if (!row->is_value)
		return j;
	if (row->place.type)
		json_object_set_new(j, "type", run_json_text(row->place.type->name));
	if (row->expression[0])
		json_object_set_new(j, "evaluateName", run_json_text(row->expression));
	if (!row->why_not) {
		snprintf(address, sizeof(address), "0x%" PRIx64, row->place.address);
		json_object_set_new(j, "memoryReference", json_string(address));
	}
	return j;
}

static int row_add(struct dap *d, const struct dap_row *row, void *arg)
{
	json_t *rows = arg;

	json_array_append_new(rows, row_json(d, row));
	if (json_array_size(rows) % LOOK_EVERY == 0)
		dap_hit_meanwhile(d);
	return 0;
}

static uint64_t number_in(const json_t *arguments, const char *member)
{
	json_int_t n = json_integer_value(json_object_get(arguments, member));

	return n > 0 ? (uint64_t)n : 0;
}

void dap_variables(struct dap *d, const json_t *request)
{
	const json_t *arguments = json_object_get(request, "arguments");
	uint64_t branch = number_in(arguments, "variablesReference");
	const char *filter = json_string_value(json_object_get(arguments, "filter"));
	json_t *rows = json_array();

	if (branch <= INT32_MAX && !dap_tree_each(d, (int)branch, number_in(arguments, "start"),
						  number_in(arguments, "count"), row_add, rows)) {
		/* All rows of an array are indexed; other things have no indexed row. */
		json_t *first = json_array_get(rows, 0);
		const char *name = json_string_value(json_object_get(first, "name"));
		if (filter && name && !strcmp(filter, "indexed") != (name[0] == '['))
			json_array_clear(rows);
		dap_send_response(&d->out, request, json_pack("{s:o}", "variables", rows));
		return;
	}
	json_decref(rows);
	dap_send_refusal(&d->out, request,
			 "these variables are no longer known: open the row above them again");
}

/* There is no frame, since nothing stops: what there is are globals. */
void dap_scopes(struct dap *d, const json_t *request)
{
	dap_send_response(&d->out, request,
			  json_pack("{s:[{s:s, s:i, s:b}]}", "scopes", "name", "Globals",
				    "variablesReference", DAP_TREE_ROOT, "expensive", 1));
}

struct wanted {
	const char *name;
	char *expression;
	size_t n;
};

static int row_compare(struct dap *d, const struct dap_row *row, void *arg)
{
	const struct wanted *w = arg;

	if (!row->is_value || !row->expression[0] || strcmp(row->name, w->name) != 0)
		return 0;
	snprintf(w->expression, w->n, "%s", row->expression);
	return 1;
}

bool dap_variable_named(struct dap *d, int branch, const char *name, char *expression, size_t n)
{
	struct wanted w = { .name = name, .expression = expression, .n = n };
	uint64_t start = 0;

	/* An element far behind is asked for by its number. */
	if (name[0] == '[')
		sscanf(name, "[%" SCNu64 "]", &start);
	return dap_tree_each(d, branch, start, start ? 1 : 0, row_compare, &w) == 1;
}
