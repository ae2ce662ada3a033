/* SPDX-License-Identifier: MIT */
/* cmd_report.c - `trapline report FILE`: prints a recording in the chosen form. */
#include "cli/cmd.h"
#include "cli/code/report_code.h"
#include "cli/commands/report_bugs.h"
#include "cli/message.h"
#include "cli/opts.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "report/flow/flow_report.h"
#include "report/page/findings.h"
#include "report/run/groups.h"
#include "report/safe/private_file.h"
#include "report/safe/stream_fd.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "report"

struct settings {
	const char *as;
	const char *output;
	int verbose;
	int is_code;
	const char *at;
	struct findings *findings; /* NULL: FILE has no such lines */
	int summary;
	const char *by;
	uint64_t top;
	const char *from;
	uint64_t since_ns; /* 0: not given */
};

static const struct opt options[] = {
	{ "as", 0, OPT_CHOICE, offsetof(struct settings, as), "text|json|folded|trace|html",
	  "choose the form (default: text)" },
	{ "output", 'o', OPT_STRING, offsetof(struct settings, output), "FILE",
	  "write to FILE instead of standard output" },
	{ "code", 0, OPT_FLAG, offsetof(struct settings, is_code), NULL,
	  "show a code log, which trapline record --code wrote" },
	{ "at", 0, OPT_STRING, offsetof(struct settings, at), "ADDRESS@TIME",
	  "with --code: print the bytes at an address at a time" },
	{ "summary", 0, OPT_FLAG, offsetof(struct settings, summary), NULL,
	  "print no hits, only the tables at the end" },
	{ "by", 0, OPT_CHOICE, offsetof(struct settings, by), RUN_GROUPS_BY,
	  "make one table of the hits at the end, by this" },
	{ "top", 0, OPT_COUNT, offsetof(struct settings, top), "N",
	  "print N rows of each table at the end (default: 20)" },
	{ "from", 0, OPT_STRING, offsetof(struct settings, from), "DIR|FILE|postgres:CONNECTION",
	  "show the findings of trapline patrol there, one row for each bug" },
	{ "since", 0, OPT_TIME, offsetof(struct settings, since_ns), "TIME",
	  "with --from: a bug is new if it was first seen in this time (default: 24h)" },
	{ "verbose", 'v', OPT_FLAG, offsetof(struct settings, verbose), NULL,
	  "print the full bookkeeping at the end of the text" },
};

const struct opt_syntax report_syntax = {
	.command = COMMAND,
	.usage = "{FILE | --from SOURCE} [OPTION...]",
	.about = "Shows what trapline record wrote to FILE, or what trapline patrol found.",
	.tail = "forms:\n"
		"  text    the hits and the summary, as trapline watch or break prints them\n"
		"  json    one JSON object a line, as with --json\n"
		"  folded  stacks with counts, for flame graphs\n"
		"  trace   trace events in JSON, for ui.perfetto.dev and chrome://tracing\n"
		"  html    one page with timeline, tables and stacks, for a browser without a network;\n"
		"          of FILE of trapline race --json or heap --json too\n"
		"A FILE of trapline flow --json is shown as text, json or html.\n\n"
		"examples:\n"
		"  trapline report hits.trapline\n"
		"  trapline report hits.trapline --as folded | flamegraph.pl >hits.svg\n"
		"  trapline report hits.trapline --as html -o hits.html\n"
		"  trapline report --code code.log --at 0x401136@1234.5\n"
		"  trapline report --from /var/log/trapline --as html -o bugs.html",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
};

static void tally_all(const struct run_session *s, struct tally *tally)
{
	for (size_t i = 0; i < s->hit_count; i++)
		tally_add(tally, &s->hits[i]);
}

static void text_hits(struct run_text *text, const struct run_session *s)
{
	for (size_t i = 0; i < s->hit_count; i++) {
		if (s->hits[i].call)
			run_text_call(text, &s->info, s->calls, &s->hits[i]);
		else
			run_text_hit(text, &s->info, &s->hits[i]);
	}
}

static void as_text(FILE *f, const struct run_session *s, const struct settings *set,
		    const struct run_end *end)
{
	struct run_text text = { .f = f,
				 .has_color = terminal_has_color(stream_fd(f)),
				 .rows_max = set->top,
				 .is_verbose = set->verbose };
	struct tally tally = { 0 };

	if (!set->summary)
		text_hits(&text, s);
	if (s->calls) {
		run_text_calls_end(&text, s->calls, end, &s->calls_end);
		return;
	}
	tally_all(s, &tally);
	run_text_end(&text, &s->info, end, &tally);
	tally_free(&tally);
}

static void json_hits(FILE *f, const struct run_session *s)
{
	for (size_t i = 0; i < s->hit_count; i++) {
		if (s->hits[i].call)
			run_jsonl_call(f, s->calls, &s->hits[i]);
		else
			run_jsonl_hit(f, &s->hits[i]);
	}
}

static void as_json(FILE *f, const struct run_session *s, const struct settings *set,
		    const struct run_end *end)
{
	struct tally tally = { 0 };

	if (!set->summary)
		json_hits(f, s);
	if (s->calls) {
		run_jsonl_calls_end(f, s->calls, end, &s->calls_end);
		return;
	}
	tally_all(s, &tally);
	run_jsonl_end(f, &s->info, end, &tally);
	tally_free(&tally);
}

/* Text or JSON, with the table of --by. */
static void print_lines(FILE *f, const struct settings *set, const struct run_session *s,
			bool is_json)
{
	struct run_groups groups = { .by = set->by };
	struct run_end end = s->end;

	for (size_t i = 0; set->by && i < s->hit_count; i++)
		run_groups_add(&groups, s->calls, &s->hits[i]);
	end.groups = set->by ? &groups : NULL;
	(is_json ? as_json : as_text)(f, s, set, &end);
	run_groups_free(&groups);
}

static const struct form {
	const char *name;
	void (*print)(FILE *f, const struct run_session *s); /* NULL: text or JSON */
} forms[] = {
	{ "json", NULL },     { "folded", run_folded }, { "trace", run_trace },
	{ "html", run_html }, { "text", NULL },
};

#define FORMS (sizeof(forms) / sizeof(forms[0]))

/* Text, unless another form was chosen. */
static const struct form *form_find(const char *name)
{
	size_t i = 0;

	while (i + 1 < FORMS && name && strcmp(forms[i].name, name) != 0)
		i++;
	return name ? &forms[i] : &forms[FORMS - 1];
}

static int print_form(FILE *f, const struct settings *set, const char *path,
		      const struct run_session *session)
{
	const struct form *form = form_find(set->as);
	bool is_json = !strcmp(form->name, "json");

	if (set->findings) {
		findings_print(f, set->findings);
		return CLI_OK;
	}

	if (set->is_code || !session)
		return report_code(f, path, set->at, is_json);
	if (form->print)
		form->print(f, session);
	else
		print_lines(f, set, session, is_json);
	return CLI_OK;
}

static int close_output(const struct settings *set, FILE *f, int status)
{
	const char *name = set->output ? set->output : "standard output";

	errno = 0;
	bool failed = fflush(f) || ferror(f);
	int err = errno;
	if (set->output && fclose(f) && !failed) {
		failed = true;
		err = errno;
	}
	if (!failed)
		return status;
	/*
	 * A reader that has seen enough needs no message: main() states what else went wrong there.
	 */
	if (set->output || err != EPIPE)
		cli_wrong(COMMAND, "cannot write %s%s%s", name, err ? ": " : " as a whole",
			  err ? strerror(err) : "");
	return CLI_NO;
}

static int print(const struct settings *set, const char *path, const struct run_session *session)
{
	const char *name = set->output ? set->output : "standard output";
	FILE *f = set->output ? private_file(set->output) : stdout;

	if (!f)
		return cli_wrong(COMMAND, "cannot write %s: %s", name, strerror(errno));
	return close_output(set, f, print_form(f, set, path, session));
}

/*
 * JSON lines of trapline race or heap: they are a report already, so the page alone is made of
 * them.
 */
static int print_findings(struct settings *set, const char *path)
{
	char why[200];

	if (!set->as || strcmp(set->as, "html") != 0)
		return cli_wrong(COMMAND,
				 "%s has JSON lines, not a recording: give --as html for a page of "
				 "them",
				 path);
	if (findings_read(path, &set->findings, why, sizeof(why)))
		return cli_wrong(COMMAND, "%s: %s", path, why);
	if (findings_bad_line(set->findings))
		cli_note(COMMAND, "%s is damaged in line %zu: only what is before it is shown",
			 path, findings_bad_line(set->findings));
	int status = print(set, path, NULL);
	findings_free(set->findings);
	return status;
}

/* A recording of trapline flow: the same text or page as it prints itself. */
static int print_flow_form(const struct settings *set, const char *path, struct flow_report *flows)
{
	const char *form = set->as ? set->as : "text";
	const char *slash = strrchr(path, '/');
	FILE *f = set->output ? private_file(set->output) : stdout;

	if (!f)
		return cli_wrong(COMMAND, "cannot write %s: %s", set->output, strerror(errno));
	bool is_json = !strcmp(form, "json");
	bool is_text = !strcmp(form, "text");
	bool has_color = terminal_has_color(stream_fd(f));
	/* As the run itself prints them: a page has no location for a death. */
	flow_report_deaths(flows, is_json, is_text && has_color, is_json || is_text ? f : stderr);
	if (!strcmp(form, "html"))
		flow_print_html(flows, slash ? slash + 1 : path, f);
	else if (is_json)
		flow_print_json(flows, f);
	else
		flow_print_text(flows, set->verbose != 0, has_color, f);
	return close_output(set, f, CLI_OK);
}

static int print_flows(const struct settings *set, const char *path, struct flow_report *flows)
{
	if (set->summary || set->by || set->top)
		return cli_wrong(COMMAND, "%s has flows: --summary, --by and --top are for hits",
				 path);
	if (set->as && strcmp(set->as, "text") != 0 && strcmp(set->as, "json") != 0 &&
	    strcmp(set->as, "html") != 0)
		return cli_wrong(COMMAND, "%s has flows: give --as text, json or html", path);
	if (flow_report_bad_line(flows))
		cli_note(COMMAND, "%s is damaged in line %zu: only what is before it is shown",
			 path, flow_report_bad_line(flows));
	return print_flow_form(set, path, flows);
}

/* The options of the tables, which only text and JSON have. */
static int summary_check(const struct settings *set)
{
	const char *given = set->summary ? "--summary" :
			    set->by	 ? "--by" :
			    set->top	 ? "--top" :
					   NULL;

	if (given && set->is_code)
		return cli_wrong(COMMAND, "%s cannot be combined with --code", given);
	if (given && form_find(set->as)->print)
		return cli_wrong(COMMAND, "%s cannot be combined with --as %s", given, set->as);
	return CLI_OK;
}

/* They are of many hosts and builds, and not a recording. */
static int print_bugs(const struct settings *set, int argc)
{
	static const char *const forms_of_bugs[] = { "text", "json", "html" };
	const char *name = set->output ? set->output : "standard output";
	bool has_form = !set->as;

	for (size_t i = 0; i < 3; i++)
		has_form = has_form || !strcmp(set->as, forms_of_bugs[i]);
	if (argc || set->is_code || set->at || set->summary || set->by || set->top)
		return cli_wrong(COMMAND, "--from takes --since, --as and --output only");
	if (!has_form)
		return cli_wrong(COMMAND, "--as %s cannot be combined with --from", set->as);
	FILE *f = set->output ? private_file(set->output) : stdout;
	if (!f)
		return cli_wrong(COMMAND, "cannot write %s: %s", name, strerror(errno));
	uint64_t since_ns = set->since_ns ? set->since_ns : UINT64_C(86400000000000);
	return close_output(set, f, report_bugs(set->from, set->as, since_ns, f));
}

int cmd_report(int argc, char **argv)
{
	struct settings set = { 0 };
	struct run_session *session;
	struct flow_report *flows;
	char why[200];
	int status = 0;
	int first = opts_parse(&report_syntax, argc, argv, &set, &status);

	if (first < 0)
		return status;
	if (set.from)
		return print_bugs(&set, argc - first);
	if (set.since_ns)
		return cli_wrong(COMMAND, "--since needs --from");
	if (first + 1 != argc)
		return cli_wrong(COMMAND, first == argc ?
						  "FILE is missing: give a recording of trapline "
						  "record" :
						  "more than one FILE: give one recording");
	if (set.at && !set.is_code)
		return cli_wrong(COMMAND, "--at needs --code");
	if (set.is_code && set.as && strcmp(set.as, "text") != 0 && strcmp(set.as, "json") != 0)
		return cli_wrong(COMMAND, "--as %s cannot be combined with --code", set.as);
	status = summary_check(&set);
	if (status)
		return status;
	if (set.is_code)
		return print(&set, argv[first], NULL);
	if (findings_is_for(argv[first]) && !flow_report_read(argv[first], &flows)) {
		status = print_flows(&set, argv[first], flows);
		flow_report_close(flows);
		return status;
	}
	if (findings_is_for(argv[first]))
		return print_findings(&set, argv[first]);
	if (run_session_read(argv[first], &session, why, sizeof(why)))
		return cli_wrong(COMMAND, "%s: %s", argv[first], why);
	if (session->good_bytes < session->all_bytes)
		cli_note(COMMAND,
			 "%s is damaged or not complete after byte %zu of %zu: only the part "
			 "before is shown",
			 argv[first], session->good_bytes, session->all_bytes);
	else if (!session->has_end)
		cli_note(COMMAND, "%s has no end: its recorder is still running, or was killed",
			 argv[first]);
	status = print(&set, argv[first], session);
	run_session_free(session);
	return status;
}
