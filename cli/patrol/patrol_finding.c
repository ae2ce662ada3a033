/* SPDX-License-Identifier: MIT */
/* patrol_finding.c - see patrol_finding.h. */
#include "cli/patrol/patrol_finding.h"

#include "report/json_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HIDDEN "<redacted>"

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

static void hide(json_t *j)
{
	const char *name;
	json_t *value;
	size_t i;

	json_array_foreach(j, i, value) hide(value);
	json_object_foreach(j, name, value)
	{
		/* A number of bytes has no content. */
		bool is_size = json_is_integer(value) && !strcmp(name, "bytes");
		if (is_value(name) && !is_size && !json_is_null(value))
			json_object_set_new(j, name, json_string(HIDDEN));
		else
			hide(value);
	}
}

json_t *patrol_finding_without_values(const json_t *finding)
{
	json_t *copy = json_deep_copy(finding);

	if (copy)
		hide(copy);
	return copy;
}
