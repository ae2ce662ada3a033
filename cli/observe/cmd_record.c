// SPDX-License-Identifier: MIT
/*
 * cmd_record.c - `trapline record`: the hits of watch or, with --break, of break go to a file.
 *
 * One table of options serves both, so that --help shows all of them.
 */
#include "cli/break/break.h"
#include "cli/cmd.h"
#include "cli/observe/observe_options.h"
#include "cli/observe/session.h"
#include "cli/watch/watch.h"

#define COMMAND "record"
#define AT(member) offsetof(struct settings, watch.member)
#define AT_BREAK(member) offsetof(struct settings, calls.member)

struct settings {
	struct watch_settings watch; /* and what break has too */
	struct break_settings calls;
	int is_break;
};

static const struct opt options[] = {
	OPTION_RECORD,
	OPTION_PID,
	{ "break", 'b', OPT_FLAG, offsetof(struct settings, is_break), NULL,
	  "record calls of LOCATION, as trapline break reports them" },
	OPTION_IF,
	OPTION_LIMIT,
	OPTION_FOR,
	OPTION_NO_STACK,
	OPTION_MAX_RATE,
	OPTION_NO_BPF,
	OPTION_VERBOSE,
	OPTION_FROM,
	OPTION_UNTIL,
	OPTION_MULTIPLEX,
	OPTION_THREAD,
	OPTION_ON,
	OPTION_KERNEL,
#undef AT
#define AT AT_BREAK
	OPTION_ARGS,
	OPTION_RET,
	OPTION_INLINED,
};

static const struct opt_alias aliases[] = { WATCH_ALIASES };

const struct opt_syntax record_syntax = {
	.command = COMMAND,
	.usage = "-o FILE [--break] EXPR|LOCATION... [OPTION...] { -p PID | -- CMD [ARG...] }",
	.about =
		"Writes the hits of watch or break, with their call stacks, to a file for trapline report.",
	.tail = EXPR_TEXT
	"\n"
	"With --break: " LOCATION_TEXT "\n"
	"--args, --ret and --inlined need --break. --from, --until, --multiplex, --thread, --on and\n"
	"--kernel are for EXPR.\n\n"
	"examples:\n"
	"  trapline record -o hits.trapline -p 4711 'conn->state' --for 10\n"
	"  trapline record -o refs.trapline -p 4711 --from conn_open:ret 'ret->refs' \\\n"
	"    --until conn_close --for 10\n"
	"  trapline record -o calls.trapline -p 4711 --break 'conn_*' --args --ret --for 10\n"
	"  trapline report hits.trapline --as html -o hits.html",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
	.aliases = aliases,
	.alias_count = sizeof(aliases) / sizeof(aliases[0]),
};

/* An option of the other kind of recording; NULL: there is none. */
static const char *misplaced(const struct settings *set)
{
	const struct watch_settings *w = &set->watch;
	const struct {
		const char *name;
		bool is_given;
		bool needs_break;
	} ones[] = {
		{ "args", set->calls.args, true },
		{ "ret", set->calls.ret, true },
		{ "inlined", set->calls.inlined, true },
		{ "from", w->from, false },
		{ "until", w->until, false },
		{ "multiplex", w->slice_ns, false },
		{ "thread", w->thread, false },
		{ "on", w->on, false },
		{ "kernel", w->kernel, false },
	};

	for (size_t i = 0; i < sizeof(ones) / sizeof(ones[0]); i++)
		if (ones[i].is_given && ones[i].needs_break != set->is_break)
			return ones[i].name;
	return NULL;
}

static void copy_common(struct settings *set)
{
	const struct watch_settings *from = &set->watch;
	struct break_settings *to = &set->calls;

	to->pid = from->pid;
	to->condition = from->condition;
	to->limit = from->limit;
	to->for_ns = from->for_ns;
	to->max_rate = from->max_rate;
	to->stack = from->stack;
	to->no_bpf = from->no_bpf;
	to->verbose = from->verbose;
	to->record = from->record;
	to->command = from->command;
}

static int record_run(struct settings *set, int argc, char **argv, int first)
{
	const char *name = misplaced(set);
	int status;

	if (!set->watch.record)
		return cli_wrong(COMMAND, "-o FILE is missing: give the file to write");
	if (name)
		return cli_wrong(COMMAND,
				 set->is_break ? "--%s cannot be combined with --break" :
						 "--%s needs --break",
				 name);
	set->watch.stack = !set->watch.no_stack;
	if (!set->is_break) {
		status = watch_settings_check(&set->watch, argc, argv, first);
		return status ? status : watch_run(&set->watch);
	}
	copy_common(set);
	status = break_settings_check(&set->calls, argc, argv, first);
	return status ? status : break_run(&set->calls);
}

int cmd_record(int argc, char **argv)
{
	struct settings set = { .watch = { .max_rate = 1000 } };
	int status = 0;

	watch_command = break_command = COMMAND;
	int n = session_cut_command(COMMAND, argc, argv, &set.watch.command);
	if (n < 0)
		return CLI_USAGE;
	n = watch_settings_cut_old(n, argv);
	int first = opts_parse(&record_syntax, n, argv, &set, &status);
	return first < 0 ? status : record_run(&set, n, argv, first);
}
