/* SPDX-License-Identifier: MIT */
/* bugs.c - see bugs.h. */
#include "report/finding/bugs.h"

#include "report/finding/bugs_names.h"
#include "report/finding/finding_json.h"
#include "report/page/page.h"
#include "report/plural.h"
#include "report/safe/clean.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define GONE_CHANCE 0.05

int bugs_new(struct bugs *out)
{
	*out = (struct bugs){ .bugs = json_object(),
			      .programs = json_object(),
			      .ids = json_object() };
	return out->bugs && out->programs && out->ids ? 0 : -ENOMEM;
}

void bugs_free(struct bugs *b)
{
	json_decref(b->bugs);
	json_decref(b->programs);
	json_decref(b->ids);
}

static const char *text_of(const json_t *j, const char *name)
{
	const char *text = json_string_value(json_object_get(j, name));

	return text ? text : "";
}

static json_int_t count_of(const json_t *j, const char *name)
{
	return json_integer_value(json_object_get(j, name));
}

/* A member that is an object; it is made where it does not exist. */
static json_t *member(json_t *of, const char *name)
{
	json_t *found = json_object_get(of, name);

	if (!found) {
		found = json_object();
		json_object_set_new_nocheck(of, name, found);
	}
	return found;
}

static void add_to(json_t *j, const char *name, json_int_t n)
{
	json_object_set_new(j, name, json_integer(count_of(j, name) + n));
}

/* Times have one form, so that their order is that of their texts. */
static void widen(json_t *j, const char *time)
{
	const char *first = text_of(j, "first_seen");

	if (!first[0] || strcmp(time, first) < 0)
		json_object_set_new(j, "first_seen", json_string(time));
	if (strcmp(time, text_of(j, "last_seen")) > 0)
		json_object_set_new(j, "last_seen", json_string(time));
}

static const char *tool_of(const char *type)
{
	return !strcmp(type, "hit") ? "points" : type;
}

static json_t *build_of(const struct bugs *b, const json_t *line)
{
	json_t *build =
		member(member(b->programs, text_of(line, "program")), text_of(line, "build_id"));

	widen(build, text_of(line, "time"));
	return build;
}

/* The latest is shown of what a later build may have moved. */
static void describe(json_t *bug, const json_t *line)
{
	static const char *const members[] = { "type", "kind", "grade", "variable", "program" };
	static const char *const places[] = { "function", "file", "line" };
	bool is_allocation;
	const json_t *place = finding_json_place(line, &is_allocation);

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		json_object_set(bug, members[i], json_object_get(line, members[i]));
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		json_object_set(bug, places[i], json_object_get(place, places[i]));
	json_object_set_new(bug, "is_allocation", json_boolean(is_allocation));
	bugs_names_keep(bug, line);
}

static void add_finding(struct bugs *b, const json_t *line)
{
	const char *fingerprint = text_of(line, "fingerprint");
	const char *time = text_of(line, "time");
	json_t *bug = member(b->bugs, fingerprint);
	json_int_t count = count_of(line, "count");
	bool is_latest = strcmp(time, text_of(bug, "last_seen")) >= 0;

	b->findings++;
	widen(bug, time);
	widen(member(member(bug, "by_build"), text_of(line, "build_id")), time);
	add_to(member(bug, "by_host"), text_of(line, "host"), 1);
	add_to(bug, "count", count > 0 ? count : 1);
	add_to(bug, "findings", 1);
	if (is_latest)
		describe(bug, line);
	build_of(b, line);
}

void bugs_add(struct bugs *b, const char *text, size_t n)
{
	json_t *line = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
	const char *type = text_of(line, "type");
	const char *id = text_of(line, "id");

	if (!type[0] || !id[0] || !text_of(line, "time")[0]) {
		b->bad++;
	} else if (!json_object_get(b->ids, id)) {
		json_object_set_new_nocheck(b->ids, id, json_true());
		if (!strcmp(type, "visit"))
			add_to(build_of(b, line), text_of(line, "tool"), 1);
		else if (text_of(line, "fingerprint")[0])
			add_finding(b, line);
	}
	json_decref(line);
}

/* --- rows --- */

struct later {
	const char *build; /* the first one after the last build with the bug; NULL: none */
	json_int_t visits; /* of all later ones, by the tool */
	double chance;	   /* to find nothing in these visits, if the bug were still there */
};

/* Visits by the tool of the builds that have the bug. */
static json_int_t visits_with(json_t *builds, json_t *with, const char *tool, const char **newest)
{
	json_int_t visits = 0;
	const char *id;
	json_t *build;

	json_object_foreach(with, id, build)
	{
		const json_t *of = json_object_get(builds, id);
		const char *at = text_of(of, "first_seen");

		visits += count_of(of, tool);
		*newest = strcmp(at, *newest) > 0 ? at : *newest;
	}
	return visits;
}

/* A rate of 1 is not believed after few visits: one visit without it is added. */
static double chance_of(json_int_t findings, json_int_t with, json_int_t without)
{
	double rate = (double)findings / ((double)with + 1);

	return pow(1 - (rate < 1 ? rate : 1), (double)without);
}

static struct later later_of(const struct bugs *b, const json_t *bug)
{
	json_t *builds = json_object_get(b->programs, text_of(bug, "program"));
	json_t *with = json_object_get(bug, "by_build");
	const char *tool = tool_of(text_of(bug, "type"));
	struct later later = { .chance = 1 };
	const char *newest = "";
	const char *found_at = "";
	const char *id;
	json_t *build;
	json_int_t visits = visits_with(builds, with, tool, &newest);

	json_object_foreach(builds, id, build)
	{
		const char *at = text_of(build, "first_seen");
		if (!id[0] || strcmp(at, newest) <= 0 || !count_of(build, tool))
			continue;
		later.visits += count_of(build, tool);
		if (later.build && strcmp(at, found_at) >= 0)
			continue;
		later.build = id;
		found_at = at;
	}
	later.chance = chance_of(count_of(bug, "findings"), visits, later.visits);
	return later;
}

static json_t *row_of(const struct bugs *b, const char *fingerprint, const json_t *bug,
		      const char *since)
{
	const struct later later = later_of(b, bug);
	const char *gone = later.chance < GONE_CHANCE ? later.build : NULL;
	bool is_new = !gone && strcmp(text_of(bug, "first_seen"), since) >= 0;
	json_t *row = json_copy((json_t *)(uintptr_t)bug);

	json_object_set_new(row, "fingerprint", json_string(fingerprint));
	json_object_set_new(row, "state", json_string(gone ? "gone" : is_new ? "new" : "known"));
	json_object_set_new(row, "gone_since", gone ? json_string(gone) : json_null());
	json_object_set_new(row, "later_visits", json_integer(later.visits));
	json_object_set_new(row, "chance", json_real(later.chance));
	json_object_set_new(
		row, "hosts",
		json_integer((json_int_t)json_object_size(json_object_get(bug, "by_host"))));
	json_object_set_new(
		row, "builds",
		json_integer((json_int_t)json_object_size(json_object_get(bug, "by_build"))));
	json_object_del(row, "by_host");
	json_object_del(row, "by_build");
	return row;
}

static int rank(const json_t *row)
{
	const char *state = text_of(row, "state");

	return !strcmp(state, "new") ? 0 : !strcmp(state, "known") ? 1 : 2;
}

static int compare_rows(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a;
	const json_t *y = *(json_t *const *)b;
	int order = rank(x) - rank(y);

	if (!order)
		order = strcmp(text_of(y, "last_seen"), text_of(x, "last_seen"));
	return order ? order : strcmp(text_of(x, "fingerprint"), text_of(y, "fingerprint"));
}

json_t *bugs_rows(const struct bugs *b, const char *since)
{
	json_t **rows = calloc(json_object_size(b->bugs) + 1, sizeof(json_t *));
	json_t *sorted = json_array();
	const char *fingerprint;
	json_t *bug;
	size_t n = 0;

	json_object_foreach(b->bugs, fingerprint, bug)
	{
		if (rows)
			rows[n++] = row_of(b, fingerprint, bug, since);
	}
	if (n)
		qsort(rows, n, sizeof(json_t *), compare_rows);
	for (size_t i = 0; i < n; i++)
		json_array_append_new(sorted, rows[i]);
	bugs_names(sorted);
	free(rows);
	return sorted;
}

/* --- printed --- */

static void where_of(const json_t *row, char *text, size_t n)
{
	const char *function = text_of(row, "function");
	const char *file = text_of(row, "file");
	const char *slash = strrchr(file, '/');
	const char *block = json_is_true(json_object_get(row, "is_allocation")) ? "block of " : "";

	if (file[0])
		snprintf(text, n, "%s%s (%s:%" JSON_INTEGER_FORMAT ")", block, function,
			 slash ? slash + 1 : file, count_of(row, "line"));
	else
		snprintf(text, n, "%s%s", block, function[0] ? function : "?");
	clean_text(text);
}

/* What a database has need not come from a tool. */
static void clean_member(const json_t *row, const char *name, char *text, size_t n)
{
	snprintf(text, n, "%s", text_of(row, name));
	clean_text(text);
}

void bugs_print_text(const struct bugs *b, const json_t *rows, FILE *f)
{
	char where[200];
	char program[200];
	char fingerprint[40];
	char kind[40];
	size_t i;
	json_t *row;

	if (json_array_size(rows))
		fprintf(f, "%-5s  %-16s  %-18s %7s %5s %6s  %-16s  %-16s  %s\n", "state",
			"fingerprint", "kind", "count", "hosts", "builds", "first seen",
			"last seen", "where");
	json_array_foreach(rows, i, row)
	{
		const char *gone = json_string_value(json_object_get(row, "gone_since"));

		where_of(row, where, sizeof(where));
		clean_member(row, "program", program, sizeof(program));
		clean_member(row, "fingerprint", fingerprint, sizeof(fingerprint));
		clean_member(row, "kind", kind, sizeof(kind));
		fprintf(f,
			"%-5s  %-16s  %-18s %7" JSON_INTEGER_FORMAT " %5" JSON_INTEGER_FORMAT
			" %6" JSON_INTEGER_FORMAT "  %-16.16s  %-16.16s  %s of %s",
			text_of(row, "state"), fingerprint, kind, count_of(row, "count"),
			count_of(row, "hosts"), count_of(row, "builds"), text_of(row, "first_seen"),
			text_of(row, "last_seen"), where, program);
		if (gone)
			fprintf(f,
				", gone since build %.12s: not in %" JSON_INTEGER_FORMAT
				" visits, %.1g by chance",
				gone, count_of(row, "later_visits"),
				json_number_value(json_object_get(row, "chance")));
		fputc('\n', f);
	}
	fprintf(f, "%zu bug%s of %" PRIu64 " finding%s", json_array_size(rows),
		plural(json_array_size(rows)), b->findings, plural(b->findings));
	if (b->bad)
		fprintf(f, "; %" PRIu64 " other line%s left out", b->bad, plural(b->bad));
	fputc('\n', f);
}

void bugs_print_json(const json_t *rows, FILE *f)
{
	size_t i;
	json_t *row;

	json_array_foreach(rows, i, row)
	{
		json_dumpf(row, f, JSON_COMPACT | JSON_ENSURE_ASCII);
		fputc('\n', f);
	}
}

void bugs_print_page(const struct bugs *b, const json_t *rows, const char *name, const char *since,
		     FILE *f)
{
	page_write(f, json_pack("{s:s, s:s, s:s, s:I, s:O}", "kind", "bugs", "name", name, "since",
				since, "findings", (json_int_t)b->findings, "bugs", rows));
}
