// SPDX-License-Identifier: MIT
/* cmd_report.c - `trapline report FILE`: what a recording holds, in the form that is wanted. */
#include "cli/cmd.h"
#include "cli/opts.h"
#include "report/near.h"
#include "report/run_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "report"

struct settings {
	const char *as;
	const char *output;
};

static const struct opt options[] = {
	{ "as", 'a', OPT_STRING, offsetof(struct settings, as), "FORM",
	  "text, jsonl, folded, trace or html (default: text)" },
	{ "output", 'o', OPT_STRING, offsetof(struct settings, output), "FILE",
	  "write to FILE and not to standard output" },
};

static const struct opt_syntax syntax = {
	.command = COMMAND,
	.usage = "FILE [--as FORM] [-o FILE]",
	.about = "Shows what `trapline record` wrote.\n\n"
		 "text: hits and summary, as `trapline watch` or `break` prints them\n"
		 "jsonl: one JSON object a line, as with --json\n"
		 "folded: stacks with counts, for flame graphs\n"
		 "trace: trace events in JSON, for ui.perfetto.dev and chrome://tracing\n"
		 "html: one page for a browser, with timeline, writers and stacks; needs no network",
	.tail = "examples:\n"
		"  trapline report hits.trapline\n"
		"  trapline report hits.trapline --as folded | flamegraph.pl >hits.svg\n"
		"  trapline report hits.trapline --as html -o hits.html",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
};

static void tally_all(const struct run_session *s, struct tally *tally)
{
	for (size_t i = 0; i < s->hit_count; i++)
		tally_add(tally, &s->hits[i]);
}

static void as_text(FILE *f, const struct run_session *s)
{
	struct run_text text = { .f = f };
	struct tally tally = { 0 };

	for (size_t i = 0; i < s->hit_count; i++) {
		if (s->hits[i].call)
			run_text_call(&text, &s->info, s->calls, &s->hits[i]);
		else
			run_text_hit(&text, &s->info, &s->hits[i]);
	}
	if (s->calls) {
		run_text_calls_end(&text, s->calls, &s->end, &s->calls_end);
		return;
	}
	tally_all(s, &tally);
	run_text_end(&text, &s->info, &s->end, &tally);
	tally_free(&tally);
}

static void as_jsonl(FILE *f, const struct run_session *s)
{
	struct tally tally = { 0 };

	for (size_t i = 0; i < s->hit_count; i++) {
		if (s->hits[i].call)
			run_jsonl_call(f, s->calls, &s->hits[i]);
		else
			run_jsonl_hit(f, &s->hits[i]);
	}
	if (s->calls) {
		run_jsonl_calls_end(f, s->calls, &s->end, &s->calls_end);
		return;
	}
	tally_all(s, &tally);
	run_jsonl_end(f, &s->info, &s->end, &tally);
	tally_free(&tally);
}

static const struct form {
	const char *name;
	void (*print)(FILE *f, const struct run_session *s);
} forms[] = {
	{ "text", as_text },	      { "jsonl", as_jsonl },	  { "folded", run_folded },
	{ "trace", run_trace },	      { "html", run_html },
};

#define FORMS (sizeof(forms) / sizeof(forms[0]))

static const struct form *form_find(const char *name)
{
	for (size_t i = 0; i < FORMS; i++)
		if (!strcmp(forms[i].name, name ? name : "text"))
			return &forms[i];
	return NULL;
}

static int print(const struct settings *set, const struct form *form,
		 const struct run_session *session)
{
	FILE *f = set->output ? fopen(set->output, "we") : stdout;

	if (!f)
		return cli_wrong(COMMAND, "cannot write %s: %s", set->output, strerror(errno));
	form->print(f, session);
	int failed = ferror(f) || fflush(f);
	if (set->output && fclose(f))
		failed = 1;
	if (failed && set->output)
		cli_wrong(COMMAND, "%s could not be written as a whole", set->output);
	return failed ? CLI_NO : CLI_OK;
}

int cmd_report(int argc, char **argv)
{
	struct settings set = { 0 };
	struct run_session *session;
	char why[200];
	int status = 0;
	int first = opts_parse(&syntax, argc, argv, &set, &status);

	if (first < 0)
		return status;
	if (first + 1 != argc)
		return cli_wrong(COMMAND, "which recording? Give one file, see trapline report --help");
	const struct form *form = form_find(set.as);
	if (!form)
		return cli_wrong(COMMAND, "--as wants text, jsonl, folded, trace or html, not '%s'",
				 set.as);
	if (run_session_read(argv[first], &session, why, sizeof(why)))
		return cli_wrong(COMMAND, "%s: %s", argv[first], why);
	if (session->good_bytes < session->all_bytes)
		cli_note(COMMAND, "%s is damaged or not complete after byte %zu of %zu: what is before "
			 "is shown", argv[first], session->good_bytes, session->all_bytes);
	else if (!session->has_end)
		cli_note(COMMAND, "%s has no end: its recorder still runs, or was killed", argv[first]);
	status = print(&set, form, session);
	run_session_free(session);
	return status;
}
