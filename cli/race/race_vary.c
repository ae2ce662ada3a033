/* SPDX-License-Identifier: MIT */
/* race_vary.c - see race_vary.h. */
#include "cli/race/race_vary.h"

#include "cli/message.h"
#include "cli/race/race_focus.h"
#include "report/run/run.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "race"

static int wrong(const char *text, const char *why)
{
	return cli_wrong(COMMAND, "invalid --vary '%s': %s (example: OMP_NUM_THREADS=2,4,36)", text,
			 why);
}

static int add_variable(struct race_vary *vary, const char *text)
{
	struct race_variable *v = &vary->variables[vary->count];
	const char *equals = strchr(text, '=');

	if (!equals || equals == text || !equals[1] || strchr(text, '\n'))
		return wrong(text, "expected a variable of the environment and its values");
	if (vary->count == OPT_LIST_MAX)
		return wrong(text, "there are too many variables");
	v->text = strdup(text);
	if (!v->text)
		return cli_wrong(COMMAND, "out of memory");
	vary->count++;
	char *rest = v->text + (equals - text);
	*rest++ = '\0';
	for (char *value; (value = strsep(&rest, ","));) {
		if (v->count == RACE_VALUES_MAX)
			return wrong(text, "expected at most 64 values");
		v->values[v->count++] = value;
	}
	return CLI_OK;
}

/* A report has what a run was given whole, or a replay would try another thing. */
static int check_room(const struct race_vary *vary)
{
	size_t room = 0;

	for (size_t i = 0; i < vary->count; i++) {
		const struct race_variable *v = &vary->variables[i];
		size_t longest = 0;

		for (size_t k = 0; k < v->count; k++)
			if (strlen(v->values[k]) > longest)
				longest = strlen(v->values[k]);
		room += strlen(v->text) + longest + 2; /* an equals sign; a newline or the 0 */
	}
	return room <= sizeof(vary->now) ?
		       CLI_OK :
		       cli_wrong(
			       COMMAND,
			       "cannot use --vary: the settings of a run have %zu bytes, and a report has "
			       "room for %zu; set the long ones in a script around the program",
			       room - 1, sizeof(vary->now) - 1);
}

int race_vary_open(const struct opt_list *list, struct race_vary *vary)
{
	int status = CLI_OK;

	for (size_t i = 0; i < list->count && !status; i++)
		status = add_variable(vary, list->texts[i]);
	return status ? status : check_room(vary);
}

void race_vary_close(struct race_vary *vary)
{
	for (size_t i = 0; i < vary->count; i++)
		free(vary->variables[i].text);
	vary->count = 0;
}

int race_vary_like(struct race_vary *vary, const char *now)
{
	char text[sizeof(vary->now)];
	char *rest = text;
	int status = CLI_OK;

	if (vary->count)
		return CLI_OK;
	snprintf(text, sizeof(text), "%s", now);
	for (char *line; !status && *text && (line = strsep(&rest, "\n"));)
		status = add_variable(vary, line);
	return status;
}

/*
 * Each pair of values of two variables must come: the second variable must not change in
 * step with the first.
 */
static size_t next_value(const struct race_variable *v, bool is_first)
{
	size_t least = 0;

	if (!is_first && race_draw(2))
		return (size_t)race_draw(v->count);
	for (size_t i = 1; i < v->count; i++)
		if (v->took_ns[i] < v->took_ns[least])
			least = i;
	return least;
}

void race_vary_choose(struct race_vary *vary)
{
	size_t used = 0;

	vary->now[0] = '\0';
	for (size_t i = 0; i < vary->count; i++) {
		struct race_variable *v = &vary->variables[i];

		v->at = next_value(v, i == 0);
		setenv(v->text, v->values[v->at], 1);
		if (used < sizeof(vary->now))
			used += (size_t)snprintf(vary->now + used, sizeof(vary->now) - used,
						 "%s%s=%s", i ? "\n" : "", v->text,
						 v->values[v->at]);
	}
}

bool race_vary_all_ran(const struct race_vary *vary)
{
	for (size_t i = 0; i < vary->count; i++)
		for (size_t k = 0; k < vary->variables[i].count; k++)
			if (!vary->variables[i].runs[k])
				return false;
	return true;
}

void race_vary_ran(struct race_vary *vary, uint64_t took_ns)
{
	for (size_t i = 0; i < vary->count; i++) {
		struct race_variable *v = &vary->variables[i];

		v->runs[v->at]++;
		v->took_ns[v->at] += took_ns;
	}
}

void race_vary_text(const struct race_vary *vary, FILE *f)
{
	for (size_t i = 0; i < vary->count; i++) {
		const struct race_variable *v = &vary->variables[i];

		fprintf(f, "varied: %s", v->text);
		for (size_t k = 0; k < v->count; k++)
			fprintf(f, "%s %s in %" PRIu64 " run%s", k ? "," : "",
				*v->values[k] ? v->values[k] : "\"\"", v->runs[k],
				v->runs[k] == 1 ? "" : "s");
		fputc('\n', f);
	}
}

void race_vary_json(const struct race_vary *vary, FILE *f)
{
	for (size_t i = 0; i < vary->count; i++) {
		const struct race_variable *v = &vary->variables[i];
		json_t *values = json_array();

		for (size_t k = 0; k < v->count; k++)
			json_array_append_new(values, json_pack("{s:o, s:I, s:I}", "value",
								run_json_text(v->values[k]), "runs",
								(json_int_t)v->runs[k], "wall_ns",
								(json_int_t)v->took_ns[k]));
		json_t *j = json_pack("{s:s, s:o, s:o}", "type", "varied", "variable",
				      run_json_text(v->text), "values", values);
		run_jsonl_line(f, j);
	}
}
