/* SPDX-License-Identifier: MIT */
/* patrol_state.c - see patrol_state.h. */
#include "cli/patrol/patrol_state.h"

#include "base/clock.h"
#include "cli/message.h"
#include "cli/patrol/patrol_finding.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Processes have the same numbers as long as the machine runs. */
static void read_boot_id(char *text, size_t n)
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	text[0] = 0;
	if (f && fgets(text, (int)n, f))
		text[strcspn(text, "\n")] = 0;
	if (f)
		fclose(f);
}

void patrol_state_count(struct patrol_state *s, const json_t *finding)
{
	const char *type = json_string_value(json_object_get(finding, "type"));
	const char *kind = json_string_value(json_object_get(finding, "kind"));
	size_t i = 0;

	type = type ? type : "";
	kind = kind ? kind : "";
	s->is_dirty = true;
	while (i < PATROL_KINDS && s->found[i].count &&
	       (strcmp(s->found[i].type, type) != 0 || strcmp(s->found[i].kind, kind) != 0))
		i++;
	if (i == PATROL_KINDS) {
		s->found_more++;
		return;
	}
	if (!s->found[i].count++) {
		snprintf(s->found[i].type, sizeof(s->found[i].type), "%s", type);
		snprintf(s->found[i].kind, sizeof(s->found[i].kind), "%s", kind);
	}
}

/* --- written --- */

static json_t *visits_to_json(const struct patrol_state *s)
{
	json_t *all = json_object();

	for (size_t tool = 0; tool < PATROL_TOOLS; tool++) {
		json_t *ends = json_object();

		for (size_t end = 0; end < PATROL_ENDS; end++)
			json_object_set_new(ends, patrol_end_name((enum patrol_end)end),
					    json_integer((json_int_t)s->visits[tool][end]));
		json_object_set_new(all, patrol_tool_name((enum patrol_tool)tool), ends);
	}
	return all;
}

static json_t *found_to_json(const struct patrol_state *s)
{
	json_t *all = json_array();

	for (size_t i = 0; i < PATROL_KINDS && s->found[i].count; i++)
		json_array_append_new(all, json_pack("{s:s, s:s, s:I}", "type", s->found[i].type,
						     "kind", s->found[i].kind, "count",
						     (json_int_t)s->found[i].count));
	return all;
}

static json_t *roads_to_json(const struct patrol_state *s)
{
	json_t *all = json_array();

	for (size_t i = 0; i < s->rules->road_count; i++) {
		const struct road *r = &s->road[i];

		json_array_append_new(all, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s}", "road",
						     r->rule->title, "sent", (json_int_t)r->sent,
						     "waiting", (json_int_t)r->count,
						     "waiting_bytes", (json_int_t)r->bytes,
						     "dropped", (json_int_t)r->dropped, "refused",
						     (json_int_t)r->refused, "reason", r->reason));
	}
	return all;
}

static json_t *rules_to_json(const struct patrol_state *s)
{
	json_t *all = json_array();

	for (size_t i = 0; i < s->rules->rule_count; i++)
		json_array_append_new(
			all, json_pack("{s:s, s:I}", "rule", s->rules->rule[i].title, "processes",
				       (json_int_t)(s->processes.matches ? s->processes.matches[i] :
									   0)));
	return all;
}

static json_t *visit_to_json(const struct patrol_visit *v)
{
	if (!v->runs)
		return json_null();
	return json_pack("{s:i, s:s, s:s, s:s, s:o}", "pid", v->who.pid, "program", v->who.program,
			 "rule", v->rule->title, "tool", patrol_tool_name(v->tool), "began",
			 patrol_time(v->began));
}

void patrol_state_write(struct patrol_state *s)
{
	const struct patrol_account *a = &s->account;
	json_t *j = json_pack(
		"{s:s, s:s, s:I, s:o, s:s, s:f, s:f, s:f, s:o, s:o, s:I, s:I, s:o, s:o, s:o}",
		"boot", s->boot, "host", s->rules->host, "number", (json_int_t)s->visit.number,
		"visiting", visit_to_json(&s->visit), "idle", s->idle ? s->idle : "",
		"budget_percent", s->rules->budget, "spent_percent",
		patrol_account_share(a, clock_now_ns()), "cpu_seconds",
		(s->cpu_ns + a->total) / 1e9, "visits", visits_to_json(s), "found",
		found_to_json(s), "found_more", (json_int_t)s->found_more, "findings_lost",
		(json_int_t)s->findings_lost, "roads", roads_to_json(s), "rules", rules_to_json(s),
		"seen", patrol_processes_to_json(&s->processes));
	int err = j ? folder_write(&s->folder, PATROL_STATE, j, false) : -ENOMEM;
	if (err)
		cli_note(PATROL_COMMAND,
			 "cannot write in %s: %s; 'trapline patrol status' is not up to date",
			 s->folder.path, strerror(-err));
	json_decref(j);
	s->is_dirty = false;
}

/* --- read --- */

static uint64_t count_of(const json_t *j, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(j, name));

	return n > 0 ? (uint64_t)n : 0;
}

static void read_counts(struct patrol_state *s, const json_t *j)
{
	const json_t *visits = json_object_get(j, "visits");
	size_t i;
	json_t *row;

	for (size_t tool = 0; tool < PATROL_TOOLS; tool++)
		for (size_t end = 0; end < PATROL_ENDS; end++)
			s->visits[tool][end] = count_of(
				json_object_get(visits, patrol_tool_name((enum patrol_tool)tool)),
				patrol_end_name((enum patrol_end)end));
	json_array_foreach(json_object_get(j, "found"), i, row)
	{
		const char *type = json_string_value(json_object_get(row, "type"));
		const char *kind = json_string_value(json_object_get(row, "kind"));
		if (i >= PATROL_KINDS || !type || !kind)
			break;
		snprintf(s->found[i].type, sizeof(s->found[i].type), "%s", type);
		snprintf(s->found[i].kind, sizeof(s->found[i].kind), "%s", kind);
		s->found[i].count = count_of(row, "count");
	}
	s->found_more = count_of(j, "found_more");
	s->findings_lost = count_of(j, "findings_lost");
	s->cpu_ns = 1e9 * json_number_value(json_object_get(j, "cpu_seconds"));
	s->visit.number = count_of(j, "number");
}

static void read_roads(struct patrol_state *s, const json_t *j)
{
	size_t i;
	json_t *row;

	json_array_foreach(json_object_get(j, "roads"), i, row)
	{
		const char *title = json_string_value(json_object_get(row, "road"));

		for (size_t k = 0; title && k < s->rules->road_count; k++) {
			if (strcmp(title, s->rules->road[k].title) != 0)
				continue;
			s->road[k].sent = count_of(row, "sent");
			s->road[k].dropped += count_of(row, "dropped");
			s->road[k].refused = count_of(row, "refused");
		}
	}
}

/* A state of another boot has counters and refusals, and no processes of today. */
void patrol_state_read(struct patrol_state *s)
{
	int err;
	json_t *j = folder_read(&s->folder, PATROL_STATE, PATROL_STATE_BYTES, &err);
	const char *then = json_string_value(json_object_get(j, "boot"));
	json_t *seen = json_object_get(j, "seen");

	if (!j && err != -ENOENT)
		cli_note(PATROL_COMMAND,
			 "cannot read %s/" PATROL_STATE ": %s; the counters begin at 0",
			 s->folder.path,
			 err == -EBADMSG ? "trapline did not write it" : strerror(-err));
	read_boot_id(s->boot, sizeof(s->boot));
	if (!then || strcmp(s->boot, then) != 0)
		json_object_del(seen, "processes");
	read_counts(s, j);
	read_roads(s, j);
	patrol_processes_from_json(&s->processes, seen);
	json_decref(j);
}
