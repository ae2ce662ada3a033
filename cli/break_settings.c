// SPDX-License-Identifier: MIT
/* break_settings.c - the options of `trapline break`, and of `trapline record --break`. */
#include "cli/break.h"
#include "cli/cmd.h"
#include "cli/condition.h"
#include "cli/opts.h"
#include "cli/session.h"

#include <string.h>

#define COMMAND break_command
#define AT(member) offsetof(struct break_settings, member)

/* What both have. */
#define OPTION_PID { "pid", 'p', OPT_PID, AT(pid), "PID", "the running process" }
#define OPTION_IF                                            \
	{ "if", 0, OPT_STRING, AT(condition), "COND",        \
	  "only hits for which this holds; see trapline-condition(7)" }
#define OPTION_ARGS { "args", 'a', OPT_FLAG, AT(args), NULL, "print the arguments" }
#define OPTION_RET                                     \
	{ "ret", 'r', OPT_FLAG, AT(ret), NULL,         \
	  "print what functions return, and after how long" }
#define OPTION_LIMIT { "limit", 'n', OPT_COUNT, AT(limit), "N", "end after exactly N hits" }
#define OPTION_FOR { "for", 0, OPT_SECONDS, AT(for_ns), "SECONDS", "end after this time" }
#define OPTION_INLINED                                 \
	{ "inlined", 0, OPT_FLAG, AT(inlined), NULL,   \
	  "with a pattern, also where functions were inlined into others" }
#define OPTION_MAX_RATE                                \
	{ "max-rate", 0, OPT_COUNT, AT(max_rate), "N", \
	  "pause when there are more hits a second (default: 1000; 0: never)" }
#define OPTION_NO_BPF                                  \
	{ "no-bpf", 0, OPT_FLAG, AT(no_bpf), NULL,     \
	  "hardware breakpoints (4 places) even where uprobes and BPF are permitted" }

#define WHERE_TEXT                                                                       \
	"WHERE, any number of them: a function, file:line, 0xADDRESS, function+offset,\n" \
	"object:function, or a pattern such as 'conn_*' or 'libc.so.6:mem*'."

static const struct opt break_options[] = {
	OPTION_PID,
	{ "list", 'l', OPT_FLAG, AT(list), NULL,
	  "list the places that WHERE means, and end" },
	OPTION_IF,
	{ "explain", 0, OPT_FLAG, AT(explain), NULL,
	  "print the program made of --if and the verifier's log, and end" },
	OPTION_ARGS,
	OPTION_RET,
	OPTION_LIMIT,
	OPTION_FOR,
	OPTION_INLINED,
	{ "stack", 's', OPT_FLAG, AT(stack), NULL, "print the call stack of each hit" },
	{ "json", 0, OPT_FLAG, AT(json), NULL, "one JSON object a line" },
	{ "output", 'o', OPT_STRING, AT(output), "FILE", "write the JSON lines to FILE" },
	OPTION_MAX_RATE,
	OPTION_NO_BPF,
};

static const struct opt_syntax break_syntax = {
	.command = "break",
	.usage = "[-p PID] WHERE... [OPTION...] [-- CMD ARG...]",
	.about =
		"Prints each time that a process runs a piece of code: the thread and the caller, with\n"
		"--args the arguments, with --ret the result. The process is not stopped.\n\n" WHERE_TEXT,
	.tail = "examples:\n"
		"  trapline break -p $(pidof redis-server) call --limit 10\n"
		"  trapline break -p 4711 libc.so.6:open64 --args --ret --if 'str(arg0) == \"/etc/passwd\"'\n"
		"  trapline break -p 4711 'conn_*' --ret --for 10 --json\n"
		"  trapline break -p 4711 read_conn --ret --if 'ret < 0 && c->state == OPEN'\n"
		"  trapline break server.c:120 --stack -- ./program",
	.options = break_options,
	.count = sizeof(break_options) / sizeof(break_options[0]),
};

static const struct opt record_options[] = {
	{ "break", 'b', OPT_FLAG, AT(is_break), NULL,
	  "record breakpoints; without it accesses to data" },
	{ "output", 'o', OPT_STRING, AT(record), "FILE", "the file to write" },
	OPTION_PID,
	OPTION_IF,
	OPTION_ARGS,
	OPTION_RET,
	OPTION_LIMIT,
	OPTION_FOR,
	OPTION_INLINED,
	{ "no-stack", 0, OPT_FLAG, AT(no_stack), NULL, "leave out the call stacks" },
	OPTION_MAX_RATE,
	OPTION_NO_BPF,
};

static const struct opt_syntax record_syntax = {
	.command = "record",
	.usage = "--break -o FILE [-p PID] WHERE... [OPTION...] [-- CMD ARG...]",
	.about =
		"Writes each time that a process runs a piece of code to a file, with its call stack,\n"
		"and prints a summary. `trapline report FILE` shows what is in it.\n\n" WHERE_TEXT,
	.tail = "examples:\n"
		"  trapline record --break -o calls.trapline -p 4711 'conn_*' --args --ret --for 10\n"
		"  trapline report calls.trapline --as trace >calls.json",
	.options = record_options,
	.count = sizeof(record_options) / sizeof(record_options[0]),
};

static int settings_check(struct break_settings *set, int argc, char **argv, int first)
{
	if (first == argc)
		return cli_wrong(
			COMMAND,
			"where? Give a function, file:line or an address, such as main "
			"or server.c:120; see trapline break --help");
	set->where = argv + first;
	set->where_count = (size_t)(argc - first);
	int status = session_check_target(COMMAND, set->pid, set->command);
	if (status)
		return status;
	if (set->explain && !set->condition)
		return cli_wrong(COMMAND, "--explain explains --if, and there is none");
	if (set->ret && set->no_bpf)
		return cli_wrong(
			COMMAND,
			"--ret needs uprobes and BPF, and --no-bpf forbids them");
	status = break_result_split(set);
	if (status)
		return status;
	if (set->explain && !set->condition)
		return cli_wrong(COMMAND, "--explain explains what the kernel decides, and results are "
					  "compared when there are some");
	status = cli_condition_check(COMMAND, set->condition);
	return status ? status : break_check(set);
}

int break_settings_read(struct break_settings *set, int argc, char **argv)
{
	int status = 0;

	*set = (struct break_settings){ .max_rate = 1000 };
	int n = session_cut_command(COMMAND, argc, argv, &set->command);
	if (n < 0)
		return CLI_USAGE;
	bool is_record = !strcmp(break_command, "record");
	int first = opts_parse(is_record ? &record_syntax : &break_syntax, n, argv, set, &status);
	if (first < 0)
		return status ? status : -1;
	if (is_record && !set->record)
		return cli_wrong(COMMAND, "-o FILE is missing: into which file?");
	if (is_record)
		set->stack = !set->no_stack;
	return settings_check(set, n, argv, first);
}
