/* SPDX-License-Identifier: MIT */
/* point_journal.c - see point_journal.h. */
#include "cli/point/point_journal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define MESSAGE_BYTES 2400

/* A line of a point. */
struct entry {
	const struct point *point;
	const json_t *hit;
};

static const char *text_of(const json_t *j, const char *name)
{
	return json_string_value(json_object_get(j, name));
}

/* What a person reads: the text of the point, or the function with its arguments. */
static void message_of(const json_t *hit, char *text, size_t n)
{
	const char *printed = text_of(hit, "printed");
	const char *caller = text_of(json_object_get(hit, "caller"), "function");
	const json_t *args = json_object_get(hit, "args");
	char *args_text = json_is_object(args) ? json_dumps(args, JSON_COMPACT) : NULL;
	const char *site = text_of(hit, "site");

	if (printed)
		snprintf(text, n, "%s", printed);
	else
		snprintf(text, n, "%s%s%s%s%s", site ? site : "?", args_text ? " " : "",
			 args_text ? args_text : "", caller ? " from " : "", caller ? caller : "");
	free(args_text);
}

static void write_fields(FILE *f, const void *arg, bool is_short)
{
	const struct entry *e = arg;
	const struct point *p = e->point;
	const json_t *hit = e->hit;
	char message[MESSAGE_BYTES];
	char id[24];

	message_of(hit, message, sizeof(message));
	snprintf(id, sizeof(id), "%" PRIu64, p->id);
	journal_field(f, "MESSAGE", message);
	journal_field(f, "PRIORITY", "6");
	journal_field(f, "SYSLOG_IDENTIFIER", "trapline");
	journal_field(f, "TRAPLINE_POINT", id);
	journal_field(f, "TRAPLINE_NAME", p->name);
	journal_field(f, "TRAPLINE_LOCATION", p->location);
	journal_field(f, "TRAPLINE_TYPE", text_of(hit, "type"));
	journal_field(f, "TRAPLINE_TIME", text_of(hit, "time"));
	journal_number(f, "TRAPLINE_PID", json_object_get(hit, "pid"));
	journal_number(f, "TRAPLINE_TID", json_object_get(hit, "tid"));
	journal_field(f, "TRAPLINE_THREAD", text_of(hit, "thread"));
	journal_field(f, "TRAPLINE_SITE", text_of(hit, "site"));
	journal_field(f, "TRAPLINE_FUNCTION", text_of(hit, "function"));
	journal_field(f, "TRAPLINE_CALLER", text_of(json_object_get(hit, "caller"), "function"));
	journal_field(f, "TRAPLINE_PRINTED", text_of(hit, "printed"));
	journal_number(f, "TRAPLINE_DURATION_NS", json_object_get(hit, "duration_ns"));
	journal_number(f, "TRAPLINE_SUPPRESSED", json_object_get(hit, "suppressed"));
	journal_json(f, "TRAPLINE_RET", json_object_get(hit, "ret"));
	if (!is_short)
		journal_json(f, "TRAPLINE_ARGS", json_object_get(hit, "args"));
	if (!is_short)
		journal_json(f, "TRAPLINE_STACK", json_object_get(hit, "stack"));
}

int point_journal_send(struct journal *j, const struct point *p, const char *line, size_t n)
{
	json_t *hit = json_loadb(line, n, JSON_ALLOW_NUL, NULL);
	const struct entry e = { p, hit };
	int err = hit ? journal_send(j, write_fields, &e) : -EBADMSG;

	json_decref(hit);
	return err;
}
