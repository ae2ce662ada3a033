/* SPDX-License-Identifier: MIT */
/* patrol_finding.c - see patrol_finding.h. */
#include "cli/patrol/patrol_finding.h"

#include "report/json_text.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HIDDEN "<redacted>"
/* What is not part of a name of C. Bytes of UTF-8 are. */
#define WORD_ENDS " !\"#%&'()*+,-./:;<=>?@[\\]^`{|}~\t\n"

json_t *patrol_time(double seconds)
{
	return run_json_time((uint64_t)(seconds * 1e9));
}

/* Visits have numbers over restarts, so an id is unique on this host until its state is removed. */
json_t *patrol_finding_of(const struct patrol_rules *r, const struct patrol_visit *v,
			  const json_t *line, double now)
{
	char id[160];

	/* The visit itself is number 0 of it. */
	snprintf(id, sizeof(id), "%.64s-%" PRIx64 "-%" PRIu64 "-%" PRIu64, r->host,
		 (uint64_t)v->began, v->number, v->runs ? v->findings : 0);
	json_t *finding = json_pack("{s:s, s:s, s:o, s:s, s:s, s:s}", "id", id, "host", r->host,
				    "time", patrol_time(now), "rule", v->rule->title, "program",
				    v->who.program, "build_id", v->build_id);
	if (!finding || json_object_update(finding, (json_t *)(uintptr_t)line)) {
		json_decref(finding);
		return NULL;
	}
	return finding;
}

json_t *patrol_finding_of_visit(const struct patrol_rules *r, const struct patrol_visit *v,
				double now)
{
	json_t *line = json_pack("{s:s, s:s, s:s, s:i, s:I, s:f, s:f}", "type", "visit", "tool",
				 patrol_tool_name(v->tool), "end", patrol_end_name(v->end), "pid",
				 v->who.pid, "findings", (json_int_t)v->findings, "seconds",
				 now - v->began, "cpu_seconds", v->cost_ns / 1e9);
	json_t *visit = line ? patrol_finding_of(r, v, line, now) : NULL;

	json_decref(line);
	return visit;
}

static bool is_value(const char *name)
{
	static const char *const names[] = { "bytes",  "old",	    "new",     "value",
					     "values", "args",	    "ret",     "printed",
					     "locals", "registers", "message", "sender" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* Case does not count: a Password is a password. */
static bool is_hidden(const struct patrol_rules *r, const char *name)
{
	for (unsigned int i = 0; i < cfg_size(r->file, "hide"); i++)
		if (!fnmatch(cfg_getnstr(r->file, "hide", i), name, FNM_CASEFOLD))
			return true;
	return false;
}

/* Whether one of the names in an expression, as `password` is in `{req->user.password}`. */
static bool has_hidden(const struct patrol_rules *r, const char *text, bool is_member)
{
	char name[256];
	size_t n;

	for (; text && *text; text += n) {
		bool follows_dot = is_member && *text == '.';
		n = strcspn(text + follows_dot, WORD_ENDS);
		if ((!is_member || follows_dot) && n && n < sizeof(name)) {
			snprintf(name, sizeof(name), "%.*s", (int)n, text + follows_dot);
			if (is_hidden(r, name))
				return true;
		}
		n += follows_dot;
		n += !n;
	}
	return false;
}

static void hide_value(json_t *j, const char *name)
{
	if (!json_is_null(json_object_get(j, name)))
		json_object_set_new(j, name, json_string(HIDDEN));
}

/* With each member of an object, and of what is in it. false: what is in the member comes too. */
typedef bool (*on_member)(const struct patrol_rules *r, json_t *of, const char *name,
			  json_t *member);

static void each_member(const struct patrol_rules *r, json_t *j, on_member f)
{
	const char *name;
	json_t *member;
	size_t i;

	json_array_foreach(j, i, member) each_member(r, member, f);
	json_object_foreach(j, name, member)
	{
		if (!f(r, j, name, member))
			each_member(r, member, f);
	}
}

/* Inside of a value: its members have the names of the program. */
static bool hide_if_named(const struct patrol_rules *r, json_t *of, const char *name,
			  json_t *member)
{
	(void)member;
	if (!is_hidden(r, name))
		return false;
	hide_value(of, name);
	return true;
}

static bool hide_named_members(const struct patrol_rules *r, json_t *of, const char *name,
			       json_t *member)
{
	(void)of;
	if (!is_value(name))
		return false;
	each_member(r, member, hide_if_named);
	return true;
}

static bool hide_if_value(const struct patrol_rules *r, json_t *of, const char *name,
			  json_t *member)
{
	/* A number of bytes has no content. */
	bool is_size = json_is_integer(member) && !strcmp(name, "bytes");

	(void)r;
	if (!is_value(name) || is_size)
		return false;
	hide_value(of, name);
	return true;
}

/* All values in it are those of one name. */
static bool is_of_hidden(const struct patrol_rules *r, const json_t *j)
{
	static const char *const names[] = { "variable", "pointer", "function", "site" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (has_hidden(r, json_string_value(json_object_get(j, names[i])), false))
			return true;
	return false;
}

void patrol_finding_hide(const struct patrol_rules *r, const char *point, json_t *finding)
{
	const char *printed = json_string_value(json_object_get(finding, "printed"));
	const json_t *probable = json_object_get(json_object_get(finding, "block"), "type");

	if (!cfg_size(r->file, "hide"))
		return;
	if (is_of_hidden(r, finding) || is_of_hidden(r, probable))
		each_member(r, finding, hide_if_value);
	if (has_hidden(r, point, false) || has_hidden(r, printed, true))
		hide_value(finding, "printed");
	each_member(r, finding, hide_named_members);
}

json_t *patrol_finding_without_values(const json_t *finding)
{
	json_t *copy = json_deep_copy(finding);

	if (copy)
		each_member(NULL, copy, hide_if_value);
	return copy;
}
