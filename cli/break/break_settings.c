// SPDX-License-Identifier: MIT
/* break_settings.c - the options of `trapline break`, and their checks for `record --break` too. */
#include "cli/break/break.h"
#include "cli/cmd.h"
#include "cli/observe/condition_option.h"
#include "cli/observe/observe_options.h"
#include "cli/observe/session.h"

#include <stddef.h>

#define COMMAND break_command
#define AT(member) offsetof(struct break_settings, member)

static const struct opt options[] = {
	OPTION_PID,
	OPTION_IF,
	OPTION_EXPLAIN,
	OPTION_ARGS,
	OPTION_RET,
	OPTION_LIMIT,
	OPTION_FOR,
	OPTION_LIST("list the functions and lines that LOCATION means, and exit"),
	OPTION_INLINED,
	OPTION_STACK,
	OPTION_FRAMES,
	OPTION_JSON,
	OPTION_OUTPUT,
	OPTION_MAX_RATE,
	{ "no-bpf", 0, OPT_FLAG, AT(no_bpf), NULL,
	  "use hardware breakpoints, of which there are four" },
	OPTION_VERBOSE,
};

const struct opt_syntax break_syntax = {
	.command = "break",
	.usage = "LOCATION... [OPTION...] { -p PID | -- CMD [ARG...] }",
	.about =
		"Prints each call of a function, or each execution of a line, with thread and caller.",
	.tail = LOCATION_TEXT
	"\n\n"
	"examples:\n"
	"  trapline break -p $(pidof redis-server) call --limit 10\n"
	"  trapline break -p 4711 libc.so.6:open64 --args --ret --if 'str(arg0) == \"/etc/passwd\"'\n"
	"  trapline break -p 4711 'conn_*' --ret --for 10 --json\n"
	"  trapline break -p 4711 read_conn --ret --if 'ret < 0 && c->state == OPEN'\n"
	"  trapline break server.c:120 --stack -- ./program",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
};

static int check_condition(struct break_settings *set)
{
	const struct condition_names names = { .has_result = set->ret };
	struct condition_parts parts = { 0 };
	int status = cli_condition(COMMAND, set->condition, &names, &parts);
	bool has_entry = parts.entry;

	trapline_condition_free(parts.entry);
	set->result = parts.result;
	if (!status && set->explain && !has_entry)
		return cli_wrong(COMMAND,
				 "--explain prints what the kernel evaluates, and trapline itself "
				 "compares results");
	return status;
}

int break_settings_check(struct break_settings *set, int argc, char **argv, int first)
{
	if (first == argc)
		return cli_wrong(
			COMMAND,
			"LOCATION is missing: give a function, file:line or an address, such "
			"as main or server.c:120; see trapline %s --help",
			COMMAND);
	set->locations = argv + first;
	set->location_count = (size_t)(argc - first);
	int status = session_check_target(COMMAND, set->pid, set->command);
	if (status)
		return status;
	if (set->explain && !set->condition)
		return cli_wrong(COMMAND, "--explain needs --if");
	if (set->ret && set->no_bpf)
		return cli_wrong(COMMAND,
				 "--ret cannot be combined with --no-bpf: it needs uprobes and "
				 "BPF");
	status = check_condition(set);
	return status ? status : break_check(set);
}

int break_settings_read(struct break_settings *set, int argc, char **argv)
{
	int status = 0;

	break_command = "break";
	*set = (struct break_settings){ .max_rate = 1000 };
	int n = session_cut_command(COMMAND, argc, argv, &set->command);
	if (n < 0)
		return CLI_USAGE;
	int first = opts_parse(&break_syntax, n, argv, set, &status);
	if (first < 0)
		return status ? status : -1;
	set->stack |= set->frames != 0;
	return break_settings_check(set, n, argv, first);
}
