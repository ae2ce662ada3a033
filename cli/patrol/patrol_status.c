/* SPDX-License-Identifier: MIT */
/* patrol_status.c - `trapline patrol status`: what the state file has, for people. */
#include "cli/message.h"
#include "cli/patrol/patrol_state.h"
#include "report/safe/clean.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static json_int_t number_of(const json_t *j, const char *name)
{
	return json_integer_value(json_object_get(j, name));
}

/* What a target chose is in it: its name. */
static const char *text_of(const json_t *j, const char *name, char *text, size_t n)
{
	const char *value = json_string_value(json_object_get(j, name));

	snprintf(text, n, "%s", value ? value : "?");
	clean_text(text);
	return text;
}

static void print_now(const json_t *j, bool is_served, bool is_stopped)
{
	const json_t *visit = json_object_get(j, "visiting");
	const char *idle = json_string_value(json_object_get(j, "idle"));
	char tool[32];
	char program[256];

	if (!is_served)
		printf("no patrol runs%s\n",
		       is_stopped ? "; it is stopped, until 'trapline patrol resume'" : "");
	else if (json_is_object(visit))
		printf("visits process %" JSON_INTEGER_FORMAT " (%s) with %s\n",
		       number_of(visit, "pid"), text_of(visit, "program", program, sizeof(program)),
		       text_of(visit, "tool", tool, sizeof(tool)));
	else
		printf("waits: %s\n", idle && idle[0] ? idle : "begins");
	printf("spent: %.2f%% of the CPUs in the last hour, of %g%%; %.1f s in all\n",
	       json_number_value(json_object_get(j, "spent_percent")),
	       json_number_value(json_object_get(j, "budget_percent")),
	       json_number_value(json_object_get(j, "cpu_seconds")));
}

static void print_visits(const json_t *j)
{
	const char *tool;
	const char *end;
	json_t *ends;
	json_t *count;
	bool has_one = false;

	json_object_foreach(json_object_get(j, "visits"), tool, ends)
	{
		json_object_foreach(ends, end, count)
		{
			if (!json_integer_value(count))
				continue;
			printf("%s %s %" JSON_INTEGER_FORMAT " ended by %s",
			       has_one ? "," : "visits:", tool, json_integer_value(count), end);
			has_one = true;
		}
	}
	printf("%s\n", has_one ? "" : "visits: 0");
}

static void print_found(const json_t *j)
{
	char type[32];
	char kind[64];
	size_t i;
	json_t *row;

	printf("findings:");
	json_array_foreach(json_object_get(j, "found"), i, row)
	{
		text_of(row, "kind", kind, sizeof(kind));
		printf("%s %" JSON_INTEGER_FORMAT " %s%s%s", i ? "," : "", number_of(row, "count"),
		       text_of(row, "type", type, sizeof(type)), kind[0] ? " " : "", kind);
	}
	printf("%s", json_array_size(json_object_get(j, "found")) ? "" : " 0");
	if (number_of(j, "findings_lost"))
		printf("; %" JSON_INTEGER_FORMAT " lost above the limit of a visit",
		       number_of(j, "findings_lost"));
	printf("\n");
}

static void print_tables(const json_t *j)
{
	char name[64];
	char text[256];
	char reason[PATROL_REASON_BYTES];
	size_t i;
	json_t *row;
	const json_t *seen = json_object_get(j, "seen");

	json_array_foreach(json_object_get(j, "rules"), i, row)
		printf("rule %s: %" JSON_INTEGER_FORMAT " process%s\n",
		       text_of(row, "rule", name, sizeof(name)), number_of(row, "processes"),
		       number_of(row, "processes") == 1 ? "" : "es");
	json_array_foreach(json_object_get(j, "roads"), i, row)
	{
		printf("road %s: %" JSON_INTEGER_FORMAT " sent, %" JSON_INTEGER_FORMAT
		       " waiting, %" JSON_INTEGER_FORMAT " dropped, %" JSON_INTEGER_FORMAT
		       " refused\n",
		       text_of(row, "road", name, sizeof(name)), number_of(row, "sent"),
		       number_of(row, "waiting"), number_of(row, "dropped"),
		       number_of(row, "refused"));
		text_of(row, "reason", reason, sizeof(reason));
		if (reason[0])
			printf("  %s\n", reason);
	}
	json_array_foreach(json_object_get(seen, "refusals"), i, row)
		printf("%s refuses %s: %s\n", text_of(row, "program", text, sizeof(text)),
		       text_of(row, "tool", name, sizeof(name)),
		       text_of(row, "reason", reason, sizeof(reason)));
}

int patrol_status_print(const struct folder *folder, bool as_json)
{
	int err = -ENOENT;
	json_t *j = folder->fd < 0 ? NULL :
				     folder_read(folder, PATROL_STATE, PATROL_STATE_BYTES, &err);
	bool is_served = folder_is_served(folder);
	bool is_stopped = folder->fd >= 0 && !faccessat(folder->fd, PATROL_STOP, F_OK, 0);

	if (!j && err != -ENOENT)
		return cli_wrong(PATROL_COMMAND, "cannot read %s/" PATROL_STATE ": %s",
				 folder->path,
				 err == -EBADMSG ? "trapline did not write it" : strerror(-err));
	if (!j)
		return cli_wrong(PATROL_COMMAND,
				 "no patrol has run with the state %s; start it with 'systemctl "
				 "start trapline-patrol', or with 'trapline patrol RULES'",
				 folder->path),
		       CLI_NO;
	json_object_set_new(j, "is_running", json_boolean(is_served));
	json_object_set_new(j, "is_stopped", json_boolean(is_stopped));
	if (as_json) {
		json_dumpf(j, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
		printf("\n");
	} else {
		print_now(j, is_served, is_stopped);
		print_visits(j);
		print_found(j);
		print_tables(j);
	}
	json_decref(j);
	return CLI_OK;
}
