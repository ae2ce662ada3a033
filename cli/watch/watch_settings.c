// SPDX-License-Identifier: MIT
/* watch_settings.c - the options of `trapline watch`, and their checks for `record` too. */
#include "cli/cmd.h"
#include "cli/observe/condition_option.h"
#include "cli/observe/observe_options.h"
#include "cli/observe/session.h"
#include "cli/watch/watch.h"

#include <string.h>

#define COMMAND watch_command
#define AT(member) offsetof(struct watch_settings, member)

static const struct opt options[] = {
	OPTION_PID,	 OPTION_FROM,
	OPTION_UNTIL,	 OPTION_MULTIPLEX,
	OPTION_THREAD,	 OPTION_ON,
	OPTION_IF,	 OPTION_EXPLAIN,
	OPTION_KERNEL,	 OPTION_LIMIT,
	OPTION_FOR,	 OPTION_LIST("list the variables that match EXPR, a pattern, and exit"),
	OPTION_STACK,	 OPTION_FRAMES,
	OPTION_JSON,	 OPTION_OUTPUT,
	OPTION_MAX_RATE, OPTION_NO_BPF,
	OPTION_VERBOSE,
};

static const struct opt_alias aliases[] = { WATCH_ALIASES };

const struct opt_syntax watch_syntax = {
	.command = "watch",
	.usage = "EXPR... [OPTION...] { -p PID | -- CMD [ARG...] }",
	.about =
		"Prints each access to a variable of a process: the thread, the code and both values.",
	.tail = EXPR_TEXT
	"\n\n"
	"examples:\n"
	"  trapline watch -p $(pidof redis-server) server:8 --stack\n"
	"  trapline watch -p 4711 'conn->state' --on rw --json\n"
	"  trapline watch -p 4711 --list 'server.stat_*'\n"
	"  trapline watch -p 4711 --from conn_open:ret 'ret->state' --until conn_close\n"
	"  trapline watch -p 4711 --multiplex 10ms server.clients stat_a stat_b errors hits\n"
	"  trapline watch counter --if 'new < old' --limit 10 -- ./program",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
	.aliases = aliases,
	.alias_count = sizeof(aliases) / sizeof(aliases[0]),
};

/* --from has one EXPR. */
static int objects_check(const struct watch_settings *set)
{
	if (!set->from && set->until)
		return cli_wrong(COMMAND, "--until needs --from FUNC");
	if (!set->from)
		return 0;
	if (set->expr_count != 1)
		return cli_wrong(COMMAND, "--from needs one EXPR, such as 'arg0->refcount'");
	if (set->no_bpf)
		return cli_wrong(COMMAND,
				 "--from cannot be combined with --no-bpf: it needs uprobes and "
				 "BPF");
	return 0;
}

static int exprs_check(struct watch_settings *set)
{
	for (size_t i = 0; i < set->expr_count; i++) {
		set->expr = set->exprs[i];
		int status = watch_expr_check(set);
		if (status)
			return status;
	}
	set->expr = set->exprs[0];
	return 0;
}

int watch_settings_cut_old(int argc, char **argv)
{
	int kept = 1;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--watch") || !strcmp(argv[i], "-w"))
			continue;
		argv[kept++] = argv[i] + (strncmp(argv[i], "--watch=", 8) ? 0 : 8);
	}
	return kept;
}

int watch_settings_check(struct watch_settings *set, int argc, char **argv, int first)
{
	if (!set->list && first == argc)
		return cli_wrong(COMMAND,
				 "EXPR is missing: give a variable or an address, such as "
				 "counter or 0x7ffe1000:8; see trapline %s --help",
				 COMMAND);
	set->exprs = argv + first;
	set->expr_count = (size_t)(argc - first);
	int status = session_check_target(COMMAND, set->pid, set->command);
	if (!status)
		status = objects_check(set);
	if (status)
		return status;
	if (set->kernel && set->no_bpf)
		return cli_wrong(COMMAND,
				 "--kernel cannot be combined with --no-bpf: it needs BPF to "
				 "merge the stores of one copy");
	if (set->explain && !set->condition)
		return cli_wrong(COMMAND, "--explain needs --if");
	status = cli_condition_check(COMMAND, set->condition);
	return status || set->list ? status : exprs_check(set);
}

int watch_settings_read(struct watch_settings *set, int argc, char **argv)
{
	int status = 0;

	watch_command = "watch";
	*set = (struct watch_settings){ .max_rate = 1000 };
	int n = session_cut_command(COMMAND, argc, argv, &set->command);
	if (n < 0)
		return CLI_USAGE;
	n = watch_settings_cut_old(n, argv);
	int first = opts_parse(&watch_syntax, n, argv, set, &status);
	if (first < 0)
		return status ? status : -1;
	set->stack |= set->frames != 0;
	return watch_settings_check(set, n, argv, first);
}
