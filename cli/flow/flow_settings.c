/* SPDX-License-Identifier: MIT */
/* flow_settings.c - see flow_settings.h. What cannot work is refused before the program starts. */
#include "cli/flow/flow_settings.h"

#include "cli/launch/program.h"
#include "cli/message.h"
#include "cli/observe/session.h"
#include "cli/search/search_check.h"
#include "report/lang/expression.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "flow"
#define OVERHEAD 1.0
#define ALLOWANCE_NS 2000000000u
#define WINDOW_NS 500000000u
#define MATCH_LEAST 4u

static const struct search_kind kind = {
	.command = COMMAND,
	.verb = "follow bytes in",
	.why_not_go = "which makes its system calls itself",
	.loaded = "agent",
};

static const struct opt options[] = {
#define AT(member) offsetof(struct flow_cli_settings, member)
	{ "from", 0, OPT_LIST, AT(from), "SOURCE",
	  "follow bytes of SOURCE: read, read:FD, read:PATH, FUNC:argN, FUNC:ret, env:NAME or a "
	  "variable; can be repeated (default read)" },
	{ "to", 0, OPT_LIST, AT(to), "FUNC:argN",
	  "report also what gets into argument N of FUNC; can be repeated" },
	{ "match", 'm', OPT_STRING, AT(match), "TEXT|@FILE|N-bytes",
	  "follow only these bytes, the content of FILE, or what arrives as N bytes at once" },
	{ "tables", 0, OPT_FLAG, AT(tables), NULL,
	  "follow also what is looked up in a table with a followed byte as the index" },
	{ "pid", 'p', OPT_PID, AT(pid), "PID", "follow in a running process" },
	{ "for", 0, OPT_TIME, AT(for_ns), "TIME", "end after TIME, such as 10s" },
	{ "limit", 'n', OPT_COUNT, AT(limit), "N", "end after N flows" },
	{ "overhead", 0, OPT_PERCENT, AT(overhead), "PERCENT",
	  "spend at most PERCENT of the CPU time in windows (default 1%); 100% means no limit" },
	{ "window", 0, OPT_TIME, AT(window_ns), "TIME",
	  "end each window after TIME (default 500ms)" },
	{ "error-exitcode", 0, OPT_COUNT, AT(error_exitcode), "N",
	  "exit with status N if a flow or a residue is reported" },
	{ "suppressions", 0, OPT_LIST, AT(known.suppressions), "FILE",
	  "ignore the flows that FILE lists; can be repeated" },
	{ "baseline", 0, OPT_STRING, AT(known.baseline), "FILE",
	  "report only flows that are not in FILE; create FILE if it does not exist" },
	{ "write-baseline", 0, OPT_FLAG, AT(known.write_baseline), NULL,
	  "add the flows of this run to the baseline" },
	{ "json", 'j', OPT_FLAG, AT(json), NULL, "print one JSON object per line, to stdout" },
	{ "as", 0, OPT_CHOICE, AT(as), "text|jsonl|dot|html", "print in this form (default text)" },
	{ "sarif", 0, OPT_STRING, AT(known.sarif), "FILE",
	  "write the flows to FILE as SARIF 2.1.0, for code scanning" },
	{ "output", 'o', OPT_STRING, AT(output), "FILE", "write the report to FILE" },
	{ "verbose", 'v', OPT_FLAG, AT(verbose), NULL,
	  "print stacks, sources without flows, and all counters" },
#undef AT
};

const struct opt_syntax flow_syntax = {
	.command = COMMAND,
	.usage = "[OPTION...] (-p PID | -- CMD [ARG...])",
	.about =
		"Follows bytes through a program as it is. Reports which functions copy them, what is computed "
		"from them, which sinks they reach, and where copies lie at the end.",
	.tail = "Sinks are write, send, open, exec, system, and the functions of --to. The bytes are never "
		"printed.\n\n"
		"examples:\n"
		"  trapline flow --from read -- ./program\n"
		"  trapline flow -p $(pidof redis-server) --match @secret.txt --for 10s",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
};

/* ---- sources ---- */

static int refuse_source(const char *text)
{
	return cli_wrong(COMMAND,
			 "invalid --from '%s': expected read, read:FD, read:PATH, FUNC:argN, "
			 "FUNC:ret, env:NAME or a variable (example: read:0)",
			 text);
}

static int add_read(struct flow_cli_settings *set, const char *text)
{
	struct flow_settings *flow = &set->flow;
	char *end;

	if (flow->from_read)
		return cli_wrong(COMMAND, "--from read is given twice: give it once");
	flow->from_read = 1;
	if (!*text)
		return CLI_OK;
	text++;
	const long fd = strtol(text, &end, 10);
	if (*text && !*end && fd >= 0 && fd <= INT_MAX) {
		flow->fd = fd;
		return CLI_OK;
	}
	char *path = realpath(text, NULL);
	if (strlen(path ? path : text) >= sizeof(flow->path) || !*text) {
		free(path);
		return refuse_source(text);
	}
	snprintf(flow->path, sizeof(flow->path), "%s", path ? path : text);
	free(path);
	return CLI_OK;
}

static int add_environment(struct flow_cli_settings *set, const char *name)
{
	struct flow_settings *flow = &set->flow;

	if (flow->environment[0])
		return cli_wrong(COMMAND, "--from env is given twice: give it once");
	if (!*name || strchr(name, '=') || strlen(name) >= sizeof(flow->environment))
		return cli_wrong(COMMAND,
				 "invalid --from 'env:%s': expected the name of an environment "
				 "variable (example: env:PASSWORD)",
				 name);
	snprintf(flow->environment, sizeof(flow->environment), "%s", name);
	return CLI_OK;
}

/* FUNC:argN, or with has_result FUNC:ret. 0 or -1. */
static int add_place(struct flow_cli_settings *set, const char *text, int is_source)
{
	struct flow_settings *flow = &set->flow;
	const char *colon = strrchr(text, ':');
	struct flow_place *p = &flow->places[flow->place_count];

	if (!colon || colon == text || flow->place_count == FLOW_PLACES ||
	    (size_t)(colon - text) >= sizeof(p->name))
		return -1;
	if (!strncmp(colon, ":arg", 4) && colon[4] >= '1' && colon[4] <= '6' && !colon[5]) {
		p->origin = is_source ? FLOW_FROM_ARGUMENT : FLOW_ORIGINS;
		p->argument = (uint32_t)(colon[4] - '0');
	} else if (is_source && !strcmp(colon, ":ret")) {
		p->origin = FLOW_FROM_RESULT;
	} else {
		return -1;
	}
	snprintf(p->name, sizeof(p->name), "%.*s", (int)(colon - text), text);
	flow->place_count++;
	return 0;
}

/* Memory as watch names it; found when the program is there. 0 or -1. */
static int add_variable(struct flow_cli_settings *set, const char *text)
{
	struct flow_settings *flow = &set->flow;
	struct flow_place *p = &flow->places[flow->place_count];
	struct expression_error error;
	struct expression *e = NULL;

	if (flow->place_count == FLOW_PLACES || strlen(text) >= sizeof(p->name) ||
	    expression_parse(text, &e, &error))
		return -1;
	expression_free(e);
	p->origin = FLOW_FROM_VARIABLE;
	snprintf(p->name, sizeof(p->name), "%s", text);
	flow->place_count++;
	return 0;
}

static int read_sources(struct flow_cli_settings *set)
{
	int status = CLI_OK;

	if (!set->from.count)
		set->from.texts[set->from.count++] = "read";
	for (size_t i = 0; i < set->from.count && !status; i++) {
		const char *text = set->from.texts[i];

		if (!strncmp(text, "read", 4) && (!text[4] || text[4] == ':') &&
		    strcmp(text, "read:ret") != 0 && strncmp(text, "read:arg", 8) != 0)
			status = add_read(set, text + 4);
		else if (!strncmp(text, "env:", 4))
			status = add_environment(set, text + 4);
		else if (add_place(set, text, 1) && add_variable(set, text))
			status = refuse_source(text);
	}
	for (size_t i = 0; i < set->to.count && !status; i++)
		if (add_place(set, set->to.texts[i], 0))
			status = cli_wrong(COMMAND,
					   "invalid --to '%s': expected FUNC:argN with N from 1 to "
					   "6 (example: log_message:arg2)",
					   set->to.texts[i]);
	return status;
}

/* ---- what is matched ---- */

static int read_match_file(struct flow_settings *flow, const char *path)
{
	FILE *f = fopen(path, "re");

	if (!f)
		return cli_wrong(COMMAND, "cannot read %s: %s", path, strerror(errno));
	size_t n = fread(flow->match, 1, sizeof(flow->match), f);
	const int is_too_long = n == sizeof(flow->match) && fgetc(f) != EOF;
	fclose(f);
	if (is_too_long)
		return cli_wrong(COMMAND, "%s is longer than %u bytes: give a part of it", path,
				 FLOW_MATCH_BYTES);
	/* An editor ends the last line. */
	if (n && flow->match[n - 1] == '\n')
		n--;
	flow->match_bytes = (uint32_t)n;
	return CLI_OK;
}

static int read_match(struct flow_cli_settings *set)
{
	struct flow_settings *flow = &set->flow;
	const char *text = set->match;
	char *end;

	if (!text)
		return CLI_OK;
	const unsigned long length = strtoul(text, &end, 10);
	if (end != text && !strcmp(end, "-bytes") && length <= FLOW_SOURCE_BYTES) {
		flow->match_length = (uint32_t)length;
		if (length < MATCH_LEAST)
			return cli_wrong(
				COMMAND,
				"--match %s is below %u bytes: so few are found everywhere", text,
				MATCH_LEAST);
		return CLI_OK;
	}
	if (text[0] == '@') {
		const int status = read_match_file(flow, text + 1);

		if (status)
			return status;
	} else {
		if (strlen(text) > sizeof(flow->match))
			return cli_wrong(COMMAND, "--match is longer than %u bytes",
					 FLOW_MATCH_BYTES);
		flow->match_bytes = (uint32_t)strlen(text);
		memcpy(flow->match, text, flow->match_bytes);
	}
	if (flow->match_bytes < MATCH_LEAST)
		return cli_wrong(COMMAND,
				 "--match has %u byte%s: give at least %u, so few are found "
				 "everywhere",
				 flow->match_bytes, flow->match_bytes == 1 ? "" : "s", MATCH_LEAST);
	return CLI_OK;
}

/* ---- the program ---- */

static int check_process(const struct flow_cli_settings *set)
{
	char path[64];

	int status = search_check_process(&kind, set->pid);
	if (status)
		return status;
	snprintf(path, sizeof(path), "/proc/%d/exe", set->pid);
	if (program_is_translated(set->pid))
		return cli_wrong(COMMAND,
				 "cannot follow bytes in process %d: " PROGRAM_TRANSLATED_REMEDY,
				 set->pid);
	if (program_is_static(path))
		return cli_wrong(COMMAND,
				 "cannot follow bytes in process %d: it is linked statically, so "
				 "the agent cannot be loaded",
				 set->pid);
	if (program_seccomp(set->pid, set->pid))
		return cli_wrong(
			COMMAND,
			"cannot follow bytes in process %d: it has a seccomp filter, which "
			"may kill it for a system call of the agent",
			set->pid);
	return CLI_OK;
}

static int check_program(struct flow_cli_settings *set, int argc, char **argv, int first)
{
	const char *extra = first < argc ? argv[first] : NULL;

	if (session_check_program(COMMAND, extra, set->pid, set->command))
		return CLI_USAGE;
	int status = search_check_overhead(&kind, set->overhead, 100);
	if (!status)
		status = search_check_exitcode(&kind, set->error_exitcode);
	if (status)
		return status;
	return set->command ? search_check_command(&kind, set->command) : check_process(set);
}

int flow_settings_read(struct flow_cli_settings *set, int argc, char **argv)
{
	int status = 0;
	int n = session_cut_command(COMMAND, argc, argv, &set->command);

	if (n < 0)
		return CLI_USAGE;
	set->overhead = OVERHEAD;
	set->window_ns = WINDOW_NS;
	set->flow.fd = -1;
	int first = opts_parse(&flow_syntax, n, argv, set, &status);
	if (first < 0)
		return status ? status : -1;
	status = read_sources(set);
	if (!status)
		status = read_match(set);
	if (!status)
		status = check_program(set, n, argv, first);
	set->program = set->command ? set->command[0] : NULL;
	if (!set->as)
		set->as = set->json ? "jsonl" : "text";
	set->flow.budget_ppm = (uint64_t)(set->overhead * 10000);
	set->flow.allowance_ns = ALLOWANCE_NS;
	set->flow.window_ns = set->window_ns;
	set->flow.limit = set->limit;
	set->flow.has_tables = (uint32_t)set->tables;
	return status;
}
