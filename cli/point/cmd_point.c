/* SPDX-License-Identifier: MIT */
/*
 * cmd_point.c - `trapline point`: points that outlive the terminal and the program.
 *
 * add, list and remove write and read a folder; `serve` collects for what is in it.
 */
#include "cli/cmd.h"
#include "cli/message.h"
#include "cli/observe/condition_option.h"
#include "cli/observe/hit_template.h"
#include "cli/opts.h"
#include "cli/point/point_list.h"
#include "cli/point/point_serve.h"
#include "cli/point/point_settings.h"
#include "cli/service/wall_time.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROTATE_DEFAULT (64u << 20)
#define KEEP_DEFAULT 4
#define KEEP_MOST 1000
#define NOT_GIVEN UINT64_MAX
#define FILE_NAME "hits.jsonl"

static const struct opt options[] = {
#define AT(member) offsetof(struct point_settings, member)
	{ "name", 0, OPT_STRING, AT(point.name), "NAME",
	  "add: observe all processes of that name, those of today and those to come" },
	{ "if", 0, OPT_STRING, AT(point.condition), "COND",
	  "add: report only hits for which COND is true; see trapline-condition(7)" },
	{ "args", 'a', OPT_FLAG, AT(args), NULL, "add: report the arguments" },
	{ "ret", 'r', OPT_FLAG, AT(ret), NULL, "add: report each call's result and duration" },
	{ "stack", 's', OPT_FLAG, AT(stack), NULL, "add: report the call stack of each hit" },
	{ "redact", 0, OPT_LIST, AT(redact), "NAME",
	  "add: report <redacted> instead of this argument: a name, arg0 to arg5, or ret" },
	{ "expire", 0, OPT_TIME, AT(expire_ns), "TIME",
	  "add: remove the point after TIME, such as 1h" },
	{ "rate", 0, OPT_STRING, AT(rate), "N/s",
	  "add: send at most N lines a second; also N/m, N/h" },
	{ "budget", 0, OPT_STRING, AT(point.budget), "PERCENT|none",
	  "add: rest in turns where hits cost the target more of a CPU (default: 10%)" },
	{ "to", 0, OPT_STRING, AT(to), "FILE|journal",
	  "add: send the lines there (default: the file of serve)" },
	{ "output", 'o', OPT_STRING, AT(output), "FILE",
	  "serve: write the lines to FILE (default: " FILE_NAME " in the folder of --state)" },
	{ "file-size", 0, OPT_STRING, AT(file_size), "SIZE",
	  "serve: begin a new file at SIZE, such as 64M; 0: never (default: 64M)" },
	{ "keep", 0, OPT_COUNT, AT(keep), "N", "serve: keep N older files (default: 4)" },
	{ "state", 0, OPT_STRING, AT(state), "DIR",
	  "keep the points in DIR (default: " POINT_STORE_FOLDER ")" },
	{ "json", 'j', OPT_FLAG, AT(json), NULL, "print JSON, one object a line" },
#undef AT
};

const struct opt_syntax point_syntax = {
	.command = POINT_COMMAND,
	.usage = "add --name NAME LOCATION [TEXT] [OPTION...] | list | remove ID... | serve",
	.about = "Keeps points: locations in programs whose hits are collected over days and over "
		 "restarts of the program, without a terminal.",
	.tail = "examples:\n"
		"  trapline point serve &\n"
		"  trapline point add --name postgres exec_simple_query '{query_string}' --rate 10/s\n"
		"  trapline point add --name redis-server server.c:120 --expire 1h --to journal\n"
		"  trapline point list\n"
		"  trapline point remove 7",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
};

/* Which action has an option: the help of each begins with it. */
static int check_action(const struct point_settings *set, int argc, char **argv)
{
	const struct point_settings empty = { .keep = NOT_GIVEN };

	for (const struct opt *o = NULL; (o = opts_next(&point_syntax, o));) {
		size_t n = strcspn(o->help, ":");
		size_t bytes = (o->kind == OPT_FLAG) ? sizeof(int) : sizeof(uint64_t);
		if (!o->help[n] || strcspn(o->help, " ") < n ||
		    !memcmp((const char *)set + o->offset, (const char *)&empty + o->offset, bytes))
			continue;
		if (strncmp(o->help, set->action, n) != 0 || set->action[n])
			return cli_wrong(POINT_COMMAND, "--%s is for 'trapline point %.*s'",
					 o->name, (int)n, o->help);
	}
	if (argc && (!strcmp(set->action, "list") || !strcmp(set->action, "serve")))
		return cli_wrong(POINT_COMMAND, "unexpected argument '%s'", argv[0]);
	return 0;
}

/* Relative to this folder, not to that of the collector. */
static int path_of(const char *given, char *path)
{
	char here[PATH_MAX];

	if (given[0] == '/' || !getcwd(here, sizeof(here)))
		return snprintf(path, PATH_MAX, "%s", given) < PATH_MAX ? 0 : -1;
	return snprintf(path, PATH_MAX, "%s/%s", here, given) < PATH_MAX ? 0 : -1;
}

static int set_receiver(struct point_settings *set)
{
	static char path[PATH_MAX];

	if (!set->to)
		return 0;
	if (!set->to[0])
		return cli_wrong(POINT_COMMAND, "--to is empty: give a file, or journal");
	set->point.to = set->to;
	if (strncmp(set->to, "journal", 7) != 0 || (set->to[7] && set->to[7] != ':')) {
		if (path_of(set->to, path))
			return cli_wrong(POINT_COMMAND, "invalid --to: the path is too long");
		set->point.to = path;
	}
	const char *wrong = point_sink_wrong(set->point.to);
	return wrong ? cli_wrong(POINT_COMMAND, "invalid --to '%.100s': %s", set->to, wrong) : 0;
}

static int check_text(const char *text)
{
	char why[300] = "out of memory";
	struct hit_template *t = NULL;

	if (strlen(text) > POINT_TEXT_MAX)
		return cli_wrong(POINT_COMMAND, "invalid TEXT: expected at most %d bytes",
				 POINT_TEXT_MAX);
	if (hit_template_parse(text, &t, why, sizeof(why)))
		return cli_wrong(POINT_COMMAND, "invalid TEXT '%.100s': %s", text, why);
	hit_template_free(t);
	return 0;
}

/* What can be checked before there is a process. */
static int check_point(struct point_settings *set)
{
	const struct point *p = &set->point;
	const struct condition_names names = { .has_result = set->ret };
	struct condition_parts parts = { 0 };

	if (!p->name || !p->name[0])
		return cli_wrong(POINT_COMMAND,
				 "--name is missing: give the name of a program, as ps prints it "
				 "(example: --name postgres)");
	if (!p->location[0] || p->location[0] == '-' || strlen(p->location) > POINT_TEXT_MAX)
		return cli_wrong(POINT_COMMAND,
				 "invalid LOCATION '%.100s': expected a function or "
				 "file:line (example: server.c:120)",
				 p->location);
	if (set->rate && point_rate_read(set->rate, &set->point.rate, &set->point.rate_ns))
		return cli_wrong(
			POINT_COMMAND,
			"invalid --rate '%.100s': expected N/s, N/m or N/h (example: 10/s)",
			set->rate);
	int status = p->print ? check_text(p->print) : 0;
	if (!status && p->condition) {
		status = cli_condition(POINT_COMMAND, p->condition, &names, &parts);
		trapline_condition_free(parts.entry);
	}
	/* A name that is lost would not redact. */
	if (!status && json_array_size(p->redact) != set->redact.count)
		return cli_wrong(POINT_COMMAND,
				 "cannot add the point: a name of --redact is not UTF-8");
	return status ? status : set_receiver(set);
}

static void note_collector(const struct folder *store)
{
	if (!folder_is_served(store))
		cli_note(
			POINT_COMMAND,
			"no collector runs, so no hit is reported yet: start it with 'systemctl start "
			"trapline-points', or with 'trapline point serve%s%s'",
			strcmp(store->path, POINT_STORE_FOLDER) ? " --state " : "",
			strcmp(store->path, POINT_STORE_FOLDER) ? store->path : "");
}

/* An array; NULL: no name is given. */
static json_t *names_of(const struct opt_list *list)
{
	json_t *names = list->count ? json_array() : NULL;

	for (size_t i = 0; names && i < list->count; i++)
		json_array_append_new(names, json_string(list->texts[i]));
	return names;
}

static int add(struct point_settings *set, int argc, char **argv)
{
	struct folder store;
	struct point *p = &set->point;
	uint64_t id = 0;

	if (!argc)
		return cli_wrong(POINT_COMMAND,
				 "LOCATION is missing: give a function or file:line, such as main "
				 "or server.c:120");
	if (argc > 2)
		return cli_wrong(POINT_COMMAND,
				 "unexpected argument '%s': a point is one LOCATION and one TEXT",
				 argv[2]);
	p->location = argv[0];
	p->print = argc > 1 ? argv[1] : NULL;
	p->args = set->args;
	p->ret = set->ret;
	p->stack = set->stack;
	p->redact = names_of(&set->redact);
	int status = check_point(set);
	if (!status)
		status = point_store_open(set->state, true, &store);
	if (status)
		return status;
	p->added = wall_time();
	p->expires = set->expire_ns ? p->added + (double)set->expire_ns / 1e9 : 0;
	json_t *j = point_to_json(p);
	json_decref(p->redact);
	int err = j ? point_store_add(&store, j, &id) : -EINVAL;
	json_decref(j);
	if (!err) {
		printf("%" PRIu64 "\n", id);
		note_collector(&store);
	}
	folder_close(&store);
	if (err == -EINVAL)
		return cli_wrong(POINT_COMMAND, "cannot add the point: a text is not UTF-8");
	if (err)
		return cli_wrong(POINT_COMMAND, "cannot add a point in %s: %s", store.path,
				 err == -EAGAIN ? "another client holds its lock" : strerror(-err)),
		       CLI_NO;
	return CLI_OK;
}

static int remove_points(const struct point_settings *set, int argc, char **argv)
{
	struct folder store;
	unsigned long long id;
	int status = 0;

	if (!argc)
		return cli_wrong(POINT_COMMAND, "ID is missing: 'trapline point list' prints them");
	for (int i = 0; i < argc; i++)
		if (opts_number(argv[i], 10, &id))
			return cli_wrong(POINT_COMMAND,
					 "invalid ID '%s': expected a number that "
					 "'trapline point list' prints",
					 argv[i]);
	status = point_store_open(set->state, false, &store);
	for (int i = 0; i < argc && !status; i++) {
		opts_number(argv[i], 10, &id);
		int err = point_store_remove(&store, id);
		if (err == -ENOENT)
			status = cli_wrong(
				POINT_COMMAND,
				"there is no point %llu: 'trapline point list' prints them", id);
		else if (err)
			status = cli_wrong(POINT_COMMAND, "cannot remove point %llu: %s", id,
					   strerror(-err));
	}
	folder_close(&store);
	return status;
}

static int list(const struct point_settings *set)
{
	struct folder store;
	int status = point_store_open(set->state, false, &store);

	if (!status)
		status = point_list(&store, set->json);
	if (!status && !set->json)
		note_collector(&store);
	folder_close(&store);
	return status;
}

static int serve(struct point_settings *set)
{
	struct point_sinks sinks = { .rotate_bytes = ROTATE_DEFAULT, .keep = KEEP_DEFAULT };
	struct folder store;
	char path[PATH_MAX];
	char given[PATH_MAX];

	if (set->file_size && opts_size(set->file_size, &sinks.rotate_bytes))
		return cli_wrong(POINT_COMMAND,
				 "invalid --file-size '%.100s': expected a size "
				 "(examples: 64M, 500K, 1G)",
				 set->file_size);
	if (set->keep != NOT_GIVEN)
		sinks.keep = set->keep;
	if (sinks.keep > KEEP_MOST)
		return cli_wrong(POINT_COMMAND, "invalid --keep: expected at most %d", KEEP_MOST);
	int status = point_store_open(set->state, true, &store);
	if (status)
		return status;
	snprintf(given, sizeof(given), "%s/" FILE_NAME, store.path);
	/* The longest name has a number behind it. */
	if (path_of(set->output ? set->output : given, path) || strlen(path) + 8 > PATH_MAX)
		status = cli_wrong(POINT_COMMAND, "the path of the file is too long");
	sinks.file = path;
	if (!status)
		status = point_serve(&store, &sinks);
	point_sinks_close(&sinks);
	folder_close(&store);
	return status;
}

int cmd_point(int argc, char **argv)
{
	struct point_settings set = { .keep = NOT_GIVEN };
	int status = CLI_OK;
	int first = opts_parse(&point_syntax, argc, argv, &set, &status);

	if (first < 0)
		return status;
	if (first == argc)
		return cli_wrong(POINT_COMMAND, "an action is missing: add, list, remove or serve");
	set.action = argv[first++];
	argc -= first;
	argv += first;
	bool is_add = !strcmp(set.action, "add");
	bool is_remove = !strcmp(set.action, "remove");
	bool is_list = !strcmp(set.action, "list");
	if (!is_add && !is_remove && !is_list && strcmp(set.action, "serve") != 0)
		return cli_wrong(POINT_COMMAND,
				 "unknown action '%.100s': expected add, list, remove or serve",
				 set.action);
	status = check_action(&set, argc, argv);
	if (status)
		return status;
	return is_add	 ? add(&set, argc, argv) :
	       is_remove ? remove_points(&set, argc, argv) :
	       is_list	 ? list(&set) :
			   serve(&set);
}
