/* SPDX-License-Identifier: MIT */
/*
 * dap_race.c - see dap_race.h. The command decides what is a race, and which ones belong together.
 */
#include "cli/dap/dap_race.h"

#include "cli/dap/dap_hit.h"
#include "report/files/files.h"
#include "report/path.h"
#include "report/run/run.h"
#include "report/safe/clean.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MAX (4u << 20)

static const char *text_of(const json_t *j, const char *member)
{
	const char *text = json_string_value(json_object_get(j, member));

	return text ? text : "?";
}

/* One of the two accesses: where it is, in a form that a client can open. */
struct side {
	char path[PATH_MAX]; /* empty: not known */
	int line;
	char text[600];
};

static void side_read(struct dap *d, const json_t *j, bool is_first, struct side *out)
{
	const char *file = json_string_value(json_object_get(j, "file"));
	const char *slash = file ? strrchr(file, '/') : NULL;
	const char *name = slash ? slash + 1 : file;
	uint64_t ip = strtoull(text_of(j, "ip"), NULL, 16);

	out->line = (int)json_integer_value(json_object_get(j, "line"));
	if (files_source(d->symbols, ip, out->path, sizeof(out->path)))
		path_normalize(out->path);
	else
		out->path[0] = 0;
	int used = snprintf(out->text, sizeof(out->text), "%.40s by %.40s/%d in %.200s",
			    text_of(j, "access"), text_of(j, "thread"),
			    (int)json_integer_value(json_object_get(j, "tid")),
			    text_of(j, "function"));
	if (name && out->line > 0)
		used += snprintf(out->text + used, sizeof(out->text) - (size_t)used, " (%.100s:%d)",
				 name, out->line);
	snprintf(out->text + used, sizeof(out->text) - (size_t)used, "%s",
		 is_first ? ", stalled before it" : ", during the stall");
	clean_text(out->text);
}

/* The other pairs of lines of the same variable and functions. */
static void say_also(struct dap *d, const json_t *race)
{
	const json_t *also = json_object_get(race, "also");
	json_t *row;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)also, i, row)
	{
		const json_t *first = json_object_get(row, "first");
		const json_t *second = json_object_get(row, "second");
		char text[800];

		snprintf(text, sizeof(text), "also %.150s line %d / %.150s line %d [%.20s]\n",
			 text_of(first, "function"),
			 (int)json_integer_value(json_object_get(first, "line")),
			 text_of(second, "function"),
			 (int)json_integer_value(json_object_get(second, "line")),
			 text_of(row, "fingerprint"));
		clean_text(text);
		dap_say(d, "console", text);
	}
	d->child_lines += (unsigned int)json_array_size(also);
}

static json_t *side_json(const struct dap *d, const struct side *s)
{
	json_t *j = json_object();

	if (s->path[0])
		json_object_set_new(j, "path", run_json_text(s->path));
	json_object_set_new(j, "line", json_integer(s->line - (d->counts_lines_from_0 ? 1 : 0)));
	json_object_set_new(j, "text", run_json_text(s->text));
	return j;
}

static void report_event(struct dap *d, const json_t *race, const char *title,
			 const struct side side[2])
{
	json_t *body = json_object();

	json_object_set_new(body, "title", run_json_text(title));
	json_object_set_new(body, "grade", json_string(text_of(race, "grade")));
	json_object_set_new(body, "fingerprint", json_string(text_of(race, "fingerprint")));
	json_object_set_new(body, "first", side_json(d, &side[0]));
	json_object_set_new(body, "second", side_json(d, &side[1]));
	dap_send_event(&d->out, "traplineRace", body);
}

static void report_race(struct dap *d, const json_t *race)
{
	static struct side side[2];
	char title[700];
	char line[720];

	side_read(d, json_object_get(race, "first"), true, &side[0]);
	side_read(d, json_object_get(race, "second"), false, &side[1]);
	snprintf(title, sizeof(title), "race %.4s: %.40s of %.150s (%.200s) [%.20s]",
		 text_of(race, "grade"), text_of(race, "kind"),
		 json_is_string(json_object_get(race, "variable")) ? text_of(race, "variable") :
								     text_of(race, "address"),
		 text_of(race, "why"), text_of(race, "fingerprint"));
	clean_text(title);
	snprintf(line, sizeof(line), "%s\n", title);
	dap_say_at(d, line, side[0].path, side[0].line, "start");
	for (int i = 0; i < 2; i++) {
		snprintf(line, sizeof(line), "%s\n", side[i].text);
		dap_say_at(d, line, side[i].path, side[i].line, NULL);
	}
	say_also(d, race);
	dap_say_at(d, "", "", 0, "end");
	d->child_lines += 3;
	report_event(d, race, title, side);
}

static void report_summary(struct dap *d, const json_t *j)
{
	json_int_t races = json_integer_value(json_object_get(j, "races"));
	json_int_t stalls = json_integer_value(json_object_get(j, "stalls"));
	json_int_t sites = json_integer_value(json_object_get(j, "sites_covered"));
	json_int_t hidden = json_integer_value(json_object_get(j, "races_not_shown"));

	dap_note(
		d,
		"%lld race%s in %.1f s: %lld stall%s at %lld instruction%s; %lld race%s of a lower "
		"grade not shown",
		(long long)races, races == 1 ? "" : "s",
		(double)json_integer_value(json_object_get(j, "wall_ns")) / 1e9, (long long)stalls,
		stalls == 1 ? "" : "s", (long long)sites, sites == 1 ? "" : "s", (long long)hidden,
		hidden == 1 ? "" : "s");
	d->child_lines++;
}

static void report_line(struct dap *d, const char *text, size_t n)
{
	json_error_t error;
	json_t *j = json_loadb(text, n, 0, &error);
	const char *type = text_of(j, "type");

	if (!strcmp(type, "race"))
		report_race(d, j);
	else if (!strcmp(type, "summary"))
		report_summary(d, j);
	json_decref(j);
}

static bool race_add(struct dap_races *r, const char *bytes, size_t n)
{
	if (r->count + n > LINE_BYTES_MAX)
		return false;
	if (r->count + n > r->room) {
		size_t room = 2 * (r->count + n);
		char *more = realloc(r->text, room);
		if (!more)
			return false;
		r->text = more;
		r->room = room;
	}
	memcpy(r->text + r->count, bytes, n);
	r->count += n;
	return true;
}

void dap_race_read(struct dap *d, struct dap_races *r, const char *bytes, size_t n)
{
	while (n) {
		const char *end = memchr(bytes, '\n', n);
		size_t part = end ? (size_t)(end - bytes) : n;

		if (!r->is_skipping && !race_add(r, bytes, part)) {
			dap_note(d, "a race is not shown: its text is too long");
			r->is_skipping = true;
		}
		if (end && !r->is_skipping)
			report_line(d, r->text, r->count);
		if (end) {
			r->count = 0;
			r->is_skipping = false;
			part++;
		}
		bytes += part;
		n -= part;
	}
}

void dap_race_free(struct dap_races *r)
{
	if (r)
		free(r->text);
	free(r);
}
