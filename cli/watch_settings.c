// SPDX-License-Identifier: MIT
/* watch_settings.c - the options of `trapline watch` and `trapline record`. */
#include "cli/cmd.h"
#include "cli/condition.h"
#include "cli/opts.h"
#include "cli/session.h"
#include "cli/watch.h"

#include <string.h>

#define COMMAND watch_command
#define AT(member) offsetof(struct watch_settings, member)

/* What both have. */
#define OPTION_PID { "pid", 'p', OPT_PID, AT(pid), "PID", "the running process to watch" }
#define OPTION_AT                                                    \
	{ "at", 0, OPT_STRING, AT(at), "FUNC[:ret]",                 \
	  "watch objects: WHAT begins with an argument of FUNC, or what it returns" }
#define OPTION_WATCH                                                 \
	{ "watch", 'w', OPT_STRING, AT(watch), "WHAT",               \
	  "with --at: what to watch of each object" }
#define OPTION_UNTIL                                                 \
	{ "until", 0, OPT_STRING, AT(until), "FUNC[:argN]",          \
	  "an object ends when FUNC is called with it (default: arg0)" }
#define OPTION_ROTATE                                                \
	{ "rotate", 0, OPT_SECONDS, AT(rotate_ns), "TIME",           \
	  "more than the registers hold: take turns, of so long, such as 10ms" }
#define OPTION_KERNEL                                                \
	{ "kernel", 'k', OPT_FLAG, AT(kernel), NULL,                 \
	  "also what the kernel does for a thread, such as read(2) into it" }
#define OPTION_THREAD                                                \
	{ "thread", 't', OPT_STRING, AT(thread), "TID|NAME",         \
	  "the thread whose thread-local variable is meant" }
#define OPTION_ON { "on", 0, OPT_STRING, AT(on), "r|w|rw", "which accesses (default: w)" }
#define OPTION_IF                                                    \
	{ "if", 0, OPT_STRING, AT(condition), "COND",                \
	  "only hits for which this holds; see trapline-condition(7)" }
#define OPTION_LIMIT { "limit", 'n', OPT_COUNT, AT(limit), "N", "end after exactly N hits" }
#define OPTION_FOR { "for", 0, OPT_SECONDS, AT(for_ns), "SECONDS", "end after this time" }
#define OPTION_MAX_RATE                                              \
	{ "max-rate", 0, OPT_COUNT, AT(max_rate), "N",               \
	  "pause when there are more hits a second (default: 1000; 0: never)" }
#define OPTION_NO_BPF                                                \
	{ "no-bpf", 0, OPT_FLAG, AT(no_bpf), NULL, "do not use BPF even where permitted" }

#define WHAT_TEXT                                                                                  \
	"WHAT: a variable, or a place that begins with one: counter, server.clients,\n"            \
	"conn->state, table[3].next, file.c:count, ns::Class::total, libc.so.6:environ,\n"         \
	"*(struct foo *)0xADDRESS, 0xADDRESS, symbol+offset; each with :len if wanted."

static const struct opt watch_options[] = {
	OPTION_PID,
	OPTION_AT,
	OPTION_WATCH,
	OPTION_UNTIL,
	OPTION_ROTATE,
	OPTION_THREAD,
	OPTION_ON,
	OPTION_IF,
	{ "explain", 0, OPT_FLAG, AT(explain), NULL,
	  "print the program made of --if and the verifier's log, and watch nothing" },
	OPTION_KERNEL,
	OPTION_LIMIT,
	OPTION_FOR,
	{ "stack", 's', OPT_FLAG, AT(stack), NULL, "print the call stack of each hit" },
	{ "json", 0, OPT_FLAG, AT(json), NULL, "one JSON object a line" },
	{ "output", 'o', OPT_STRING, AT(output), "FILE", "write the JSON lines to FILE" },
	{ "list", 'l', OPT_STRING, AT(list), "PATTERN",
	  "list the variables and members that can be watched, and end" },
	OPTION_MAX_RATE,
	OPTION_NO_BPF,
};

static const struct opt_syntax watch_syntax = {
	.command = "watch",
	.usage = "[-p PID] WHAT... | --at FUNC WHAT | --list PATTERN [OPTION...] [-- CMD ARG...]",
	.about = "Prints each access to a piece of memory of a process: the thread, the code, the old\n"
		 "and the new value. The process is not stopped.\n\n" WHAT_TEXT,
	.tail = "examples:\n"
		"  trapline watch -p $(pidof redis-server) server:8 --stack\n"
		"  trapline watch -p 4711 'conn->state' --on rw --json\n"
		"  trapline watch -p 4711 --list 'server.stat_*'\n"
		"  trapline watch -p 4711 --at conn_open:ret 'ret->state' --until conn_close\n"
		"  trapline watch -p 4711 --rotate 10ms server.clients server.slaves stat_a stat_b errors\n"
		"  trapline watch counter --if 'new < old' --limit 10 -- ./program",
	.options = watch_options,
	.count = sizeof(watch_options) / sizeof(watch_options[0]),
};

static const struct opt record_options[] = {
	{ "output", 'o', OPT_STRING, AT(record), "FILE", "the file to write" },
	OPTION_PID,
	OPTION_AT,
	OPTION_WATCH,
	OPTION_UNTIL,
	OPTION_ROTATE,
	OPTION_THREAD,
	OPTION_ON,
	OPTION_IF,
	OPTION_KERNEL,
	OPTION_LIMIT,
	OPTION_FOR,
	{ "no-stack", 0, OPT_FLAG, AT(no_stack), NULL, "leave out the call stacks" },
	OPTION_MAX_RATE,
	OPTION_NO_BPF,
};

static const struct opt_syntax record_syntax = {
	.command = "record",
	.usage = "-o FILE [-p PID] WHAT... | --at FUNC WHAT [OPTION...] [-- CMD ARG...]",
	.about = "Writes each access to a piece of memory of a process to a file, with its call stack,\n"
		 "and prints a summary. `trapline report FILE` shows what is in it.\n\n" WHAT_TEXT,
	.tail = "examples:\n"
		"  trapline record -o hits.trapline -p 4711 'conn->state' --for 10\n"
		"  trapline record -o refs.trapline -p 4711 --at conn_open:ret 'ret->refs' \\\n"
		"    --until conn_close --for 10\n"
		"  trapline report hits.trapline --as html >hits.html",
	.options = record_options,
	.count = sizeof(record_options) / sizeof(record_options[0]),
};

/* A recording is a file, and has the stacks. */
static int record_check(struct watch_settings *set)
{
	if (!set->record)
		return cli_wrong(COMMAND, "-o FILE is missing: into which file?");
	set->stack = !set->no_stack;
	return 0;
}

/* One WHAT is of objects; --watch is another way to write it. */
static int objects_check(const struct watch_settings *set)
{
	if (set->until && !set->at)
		return cli_wrong(COMMAND, "--until ends objects that --at finds, and there is no --at");
	if (set->watch && !set->at)
		return cli_wrong(COMMAND, "--watch is of objects that --at finds, and there is no --at");
	if (!set->at)
		return 0;
	if (set->what_count + (set->watch != NULL) != 1)
		return cli_wrong(COMMAND, "--at wants one WHAT, such as --watch 'arg0->refcount'");
	if (set->no_bpf)
		return cli_wrong(COMMAND, "--at needs uprobes and BPF, and --no-bpf forbids them");
	return 0;
}

static int whats_check(struct watch_settings *set)
{
	for (size_t i = 0; i < set->what_count; i++) {
		set->what = set->whats[i];
		int status = watch_what_check(set);
		if (status)
			return status;
	}
	if (set->watch) {
		set->whats = (char **)(uintptr_t)&set->watch;
		set->what_count = 1;
	}
	set->what = set->whats[0];
	return watch_what_check(set);
}

static int settings_check(struct watch_settings *set, int argc, char **argv, int first)
{
	if (set->list && first < argc)
		return cli_wrong(COMMAND, "--list has its pattern, and '%s' is a second one; nothing "
				 "is watched with --list", argv[first]);
	if (!set->list && !set->watch && first == argc)
		return cli_wrong(COMMAND, "what is to be watched? Give an address or a symbol, such as "
				 "0x7ffe1000:8 or counter; see trapline %s --help", COMMAND);
	set->whats = argv + first;
	set->what_count = (size_t)(argc - first);
	int status = session_check_target(COMMAND, set->pid, set->command);
	if (!status)
		status = objects_check(set);
	if (status)
		return status;
	if (set->kernel && set->no_bpf)
		return cli_wrong(COMMAND, "--kernel needs BPF, which tells one write from the eight "
				 "stores it is made of, and --no-bpf forbids it");
	if (set->explain && !set->condition)
		return cli_wrong(COMMAND, "--explain explains --if, and there is none");
	status = cli_condition_check(COMMAND, set->condition);
	return status || set->list ? status : whats_check(set);
}

int watch_settings_read(struct watch_settings *set, int argc, char **argv)
{
	int status = 0;

	*set = (struct watch_settings){ .max_rate = 1000 };
	int n = session_cut_command(COMMAND, argc, argv, &set->command);
	if (n < 0)
		return CLI_USAGE;
	bool is_record = !strcmp(watch_command, "record");
	int first = opts_parse(is_record ? &record_syntax : &watch_syntax, n, argv, set, &status);
	if (first < 0)
		return status ? status : -1;
	if (is_record)
		status = record_check(set);
	return status ? status : settings_check(set, n, argv, first);
}
