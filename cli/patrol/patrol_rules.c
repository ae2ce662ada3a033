/* SPDX-License-Identifier: MIT */
/*
 * patrol_rules.c - the rules of a patrol, as a file that libconfuse reads.
 *
 * What is wrong is one line with the file, the line and the remedy.
 */
#include "cli/message.h"
#include "cli/opts.h"
#include "cli/patrol/patrol.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROAD_ROOM_BYTES (16u << 20)
#define ROAD_ROOM_LEAST (64u << 10)

static cfg_opt_t rule_options[] = {
	CFG_STR_LIST("name", NULL, CFGF_NODEFAULT),
	CFG_STR_LIST("user", NULL, CFGF_NODEFAULT),
	CFG_STR_LIST("cgroup", NULL, CFGF_NODEFAULT),
	CFG_STR("hours", NULL, CFGF_NODEFAULT),
	CFG_STR_LIST("tool", "{heap}", CFGF_NONE),
	CFG_STR_LIST("point", NULL, CFGF_NODEFAULT),
	CFG_STR("for", "3m", CFGF_NONE),
	CFG_STR("every", "1h", CFGF_NONE),
	CFG_STR("overhead", "2%", CFGF_NONE),
	CFG_END(),
};

static cfg_opt_t road_options[] = {
	CFG_STR("kind", NULL, CFGF_NODEFAULT),
	CFG_STR("to", NULL, CFGF_NODEFAULT),
	CFG_STR("room", NULL, CFGF_NODEFAULT),
	CFG_BOOL("values", cfg_false, CFGF_NONE),
	CFG_END(),
};

static cfg_opt_t options[] = {
	CFG_STR("budget", "1%", CFGF_NONE),
	CFG_FLOAT("load", 0.8, CFGF_NONE),
	CFG_STR("host", NULL, CFGF_NODEFAULT),
	CFG_STR("state", NULL, CFGF_NODEFAULT),
	CFG_STR_LIST("hide", NULL, CFGF_NODEFAULT),
	CFG_SEC("rule", rule_options, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
	CFG_SEC("road", road_options, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
	CFG_END(),
};

static const char *const tool_names[] = {
	[PATROL_HEAP] = "heap", [PATROL_RACE] = "race", [PATROL_POINTS] = "points"
};

static const struct {
	const char *name;
	const char *to; /* what to means; NULL: it needs none */
	bool is_on_host;
} roads[] = {
	[ROAD_JOURNAL] = { "journal", NULL, true },
	[ROAD_OTLP] = { "otlp", "a URL (example: http://collector:4318/v1/logs)", false },
	[ROAD_POSTGRES] = { "postgres", "a connection (example: 'host=db dbname=trapline')",
			    false },
	[ROAD_PROMETHEUS] = { "prometheus",
			      "a file for the textfile collector (example: "
			      "/var/lib/prometheus/node-exporter/trapline.prom)",
			      true },
	[ROAD_FILE] = { "file", "a path (example: /var/log/trapline/findings.jsonl)", true },
};

const char *patrol_tool_name(enum patrol_tool tool)
{
	return tool_names[tool];
}

/* The first one is the cause. */
static bool has_error;

static void on_error(cfg_t *cfg, const char *format, va_list args)
{
	char text[300];

	vsnprintf(text, sizeof(text), format, args);
	if (!has_error)
		cli_wrong(PATROL_COMMAND, "%s:%d: %s", cfg->filename ? cfg->filename : "?",
			  cfg->line, text);
	has_error = true;
}

static int wrong(const struct patrol_rules *r, const char *kind, const char *title,
		 const char *option, const char *value, const char *wanted)
{
	return cli_wrong(PATROL_COMMAND, "%s: %s %.60s: invalid %s '%.100s': expected %s", r->path,
			 kind, title, option, value, wanted);
}

/* `22:00-06:00`. 0 or -1. */
static int read_hours(const char *text, struct patrol_rule *rule)
{
	unsigned int n[4];
	int end = 0;

	if (sscanf(text, "%2u:%2u-%2u:%2u%n", &n[0], &n[1], &n[2], &n[3], &end) != 4 || text[end] ||
	    n[0] > 23 || n[2] > 24 || n[1] > 59 || n[3] > 59)
		return -1;
	rule->from_minute = 60 * n[0] + n[1];
	rule->to_minute = 60 * n[2] + n[3];
	return rule->from_minute == rule->to_minute ? -1 : 0;
}

static int read_users(const struct patrol_rules *r, struct patrol_rule *rule)
{
	unsigned int n = cfg_size(rule->section, "user");

	if (n > PATROL_USERS_MAX)
		return cli_wrong(PATROL_COMMAND, "%s: rule %.60s: expected at most %d users",
				 r->path, rule->title, PATROL_USERS_MAX);
	for (unsigned int i = 0; i < n; i++) {
		const char *name = cfg_getnstr(rule->section, "user", i);
		const struct passwd *user = getpwnam(name);
		unsigned long long number;

		if (!user && opts_number(name, 10, &number))
			return wrong(r, "rule", rule->title, "user", name,
				     "a user of this machine");
		rule->users[rule->user_count++] = user ? user->pw_uid : (uid_t)number;
	}
	return 0;
}

static int read_tools(const struct patrol_rules *r, struct patrol_rule *rule)
{
	bool has_points = cfg_size(rule->section, "point");

	for (unsigned int i = 0; i < cfg_size(rule->section, "tool"); i++) {
		const char *name = cfg_getnstr(rule->section, "tool", i);
		size_t tool = 0;

		while (tool < PATROL_TOOLS && strcmp(name, tool_names[tool]) != 0)
			tool++;
		if (tool == PATROL_TOOLS || rule->tool_count == PATROL_TOOLS)
			return wrong(r, "rule", rule->title, "tool", name,
				     "heap, race or points, each once");
		if (tool == PATROL_POINTS && !has_points)
			return wrong(r, "rule", rule->title, "tool", name,
				     "locations too (example: point = {\"server.c:120 open "
				     "{path}\"})");
		rule->tools[rule->tool_count++] = (enum patrol_tool)tool;
	}
	return 0;
}

static int read_rule(const struct patrol_rules *r, cfg_t *section, struct patrol_rule *rule)
{
	uint64_t every_ns = 0;
	const char *title = cfg_title(section);
	const char *hours = cfg_getstr(section, "hours");
	const char *time = cfg_getstr(section, "for");
	const char *every = cfg_getstr(section, "every");
	const char *overhead = cfg_getstr(section, "overhead");

	*rule = (struct patrol_rule){ .section = section, .title = title };
	if (!cfg_size(section, "name") && !cfg_size(section, "user") &&
	    !cfg_size(section, "cgroup"))
		return cli_wrong(PATROL_COMMAND,
				 "%s: rule %.60s: name, user and cgroup are missing: give one of "
				 "them (example: name = {\"nginx\"})",
				 r->path, title);
	if (hours && read_hours(hours, rule))
		return wrong(r, "rule", title, "hours", hours, "HH:MM-HH:MM");
	if (opts_time(time, &rule->for_ns))
		return wrong(r, "rule", title, "for", time, "a time (example: 3m)");
	if (opts_time(every, &every_ns))
		return wrong(r, "rule", title, "every", every, "a time (example: 1h)");
	if (opts_percent(overhead, &rule->overhead))
		return wrong(r, "rule", title, "overhead", overhead, "a percentage");
	rule->every_s = (double)every_ns / 1e9;
	int status = read_users(r, rule);
	return status ? status : read_tools(r, rule);
}

static int read_road(const struct patrol_rules *r, cfg_t *section, struct patrol_road *road)
{
	const char *title = cfg_title(section);
	const char *kind = cfg_getstr(section, "kind");
	const char *room = cfg_getstr(section, "room");
	size_t at = 0;

	*road = (struct patrol_road){ .section = section,
				      .title = title,
				      .to = cfg_getstr(section, "to"),
				      .room = ROAD_ROOM_BYTES };
	kind = kind ? kind : title;
	while (at < ROAD_KINDS && strcmp(kind, roads[at].name) != 0)
		at++;
	if (at == ROAD_KINDS)
		return wrong(r, "road", title, "kind", kind,
			     "journal, otlp, postgres, prometheus or file");
	road->kind = (enum road_kind)at;
	road->hides_values = !roads[at].is_on_host && !cfg_getbool(section, "values");
	if (roads[at].to && (!road->to || !road->to[0]))
		return wrong(r, "road", title, "to", "", roads[at].to);
	/* The lists of processes show it. */
	if (road->kind == ROAD_POSTGRES && strstr(road->to, "password"))
		return wrong(r, "road", title, "to", "...",
			     "no password: the file ~/.pgpass can have it");
	if (strchr(title, '/') || title[0] == '.' || strlen(title) > 32)
		return wrong(r, "road", title, "title", title, "at most 32 characters without /");
	if (room && (opts_size(room, &road->room) || road->room < ROAD_ROOM_LEAST))
		return wrong(r, "road", title, "room", room, "64K or more (example: 16M)");
	return 0;
}

static int read_all(struct patrol_rules *r)
{
	const char *budget = cfg_getstr(r->file, "budget");
	unsigned int rules = cfg_size(r->file, "rule");
	unsigned int ways = cfg_size(r->file, "road");
	int status = 0;

	r->load = cfg_getfloat(r->file, "load");
	r->host = cfg_getstr(r->file, "host");
	r->state = cfg_getstr(r->file, "state");
	if (opts_percent(budget, &r->budget) || r->budget > 100)
		return cli_wrong(PATROL_COMMAND,
				 "%s: invalid budget '%.100s': expected a percentage of the CPUs "
				 "of this machine (example: 1%%)",
				 r->path, budget);
	for (unsigned int i = 0; i < cfg_size(r->file, "hide"); i++)
		if (!cfg_getnstr(r->file, "hide", i)[0])
			return cli_wrong(
				PATROL_COMMAND,
				"%s: invalid hide '': expected patterns of names (example: "
				"hide = {\"*password*\", \"token\"})",
				r->path);
	if (!rules)
		return cli_wrong(PATROL_COMMAND,
				 "%s: a rule is missing (example: rule web { name = {\"nginx\"} })",
				 r->path);
	r->rule = calloc(rules, sizeof(*r->rule));
	r->road = calloc(ways + 1, sizeof(*r->road));
	if (!r->rule || !r->road)
		return cli_wrong(PATROL_COMMAND, "out of memory");
	for (unsigned int i = 0; i < rules && !status; i++)
		status = read_rule(r, cfg_getnsec(r->file, "rule", i), &r->rule[i]);
	for (unsigned int i = 0; i < ways && !status; i++)
		status = read_road(r, cfg_getnsec(r->file, "road", i), &r->road[i]);
	r->rule_count = rules;
	r->road_count = ways;
	return status;
}

/* What is in it is done with the rights of this command. */
static bool is_own(FILE *f)
{
	struct stat st;

	return !fstat(fileno(f), &st) && (!st.st_uid || st.st_uid == geteuid()) &&
	       !(st.st_mode & 022);
}

static int parse(struct patrol_rules *r, const char *path)
{
	FILE *f = fopen(path, "re");

	if (!f)
		return cli_wrong(PATROL_COMMAND, "cannot read %s: %s", path, strerror(errno));
	int status = CLI_OK;
	if (!is_own(f))
		status = cli_wrong(PATROL_COMMAND,
				   "cannot use %s: it belongs to another user, or others can "
				   "write to it; give a file of your own",
				   path);
	r->file->filename = strdup(path);
	if (!status && cfg_parse_fp(r->file, f) != CFG_SUCCESS)
		status = has_error ? CLI_USAGE :
				     cli_wrong(PATROL_COMMAND,
					       "cannot read %s: its syntax is wrong", path);
	fclose(f);
	return status;
}

int patrol_rules_read(const char *path, struct patrol_rules *out)
{
	*out = (struct patrol_rules){ .path = path };
	out->file = cfg_init(options, CFGF_NONE);
	if (!out->file)
		return cli_wrong(PATROL_COMMAND, "out of memory");
	has_error = false;
	cfg_set_error_function(out->file, on_error);
	int status = parse(out, path);
	if (!status)
		status = read_all(out);
	if (status)
		patrol_rules_free(out);
	return status;
}

void patrol_rules_free(struct patrol_rules *r)
{
	if (r->file)
		cfg_free(r->file);
	free(r->rule);
	free(r->road);
	*r = (struct patrol_rules){ .path = r->path };
}
