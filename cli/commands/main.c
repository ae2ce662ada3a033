/* SPDX-License-Identifier: MIT */
/* main.c - the command `trapline`: finds the subcommand and runs it. */
#include "cli/cmd.h"
#include "cli/launch/inherited.h"
#include "cli/message.h"
#include "cli/opts.h"
#include "cli/standard_output.h"
#include "cli/terminal.h"
#include "host/probe_owner.h"
#include "report/dwarf/near.h"
#include "report/safe/stream_fd.h"

#include <trapline/trapline.h>

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const struct opt_syntax *syntax;
	const char *help;
} commands[] = {
	{ "watch", cmd_watch, &watch_syntax, "print each access to a variable" },
	{ "break", cmd_break, &break_syntax, "print each call of functions or execution of lines" },
	{ "record", cmd_record, &record_syntax, "write the hits of watch or break to a file" },
	{ "report", cmd_report, &report_syntax, "show a recording: text, JSON, flame graph, page" },
	{ "race", cmd_race, &race_syntax, "find data races in an unmodified program" },
	{ "flow", cmd_flow, &flow_syntax, "follow bytes through an unmodified program" },
	{ "heap", cmd_heap, &heap_syntax, "find heap errors in an unmodified program" },
	{ "at", cmd_at, &at_syntax, "act at an exact point of an execution" },
	{ "throttle", cmd_throttle, &throttle_syntax,
	  "keep a program to a budget of CPU time or events" },
	{ "patch", cmd_patch, &patch_syntax, "replace functions of a running program" },
	{ "point", cmd_point, &point_syntax, "collect hits for days, without a terminal" },
	{ "patrol", cmd_patrol, &patrol_syntax, "search processes in turn, as a service" },
	{ "dap", cmd_dap, &dap_syntax, "speak the Debug Adapter Protocol: logpoints in an editor" },
	{ "check", cmd_check, &check_syntax,
	  "report what works on this machine, and what it costs" },
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *f)
{
	bool has_color = terminal_has_color(stream_fd(f));

	terminal_print(
		f,
		"usage: trapline COMMAND [OPTION...]\n"
		"       trapline PID VARIABLE... [OPTION...]   (short for trapline watch -p PID)\n\n"
		"Reports, in the thread that did it, each access to a variable, each call of a "
		"function and each data race of a running program, without stopping it.\n\n"
		"commands:",
		has_color);
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].help);
	fprintf(f, "  %-10s %s\n", "help", "print the options of a command: trapline help COMMAND");
	terminal_print(f,
		       "\noptions:\n"
		       "  -h, --help     print this text\n"
		       "  -V, --version  print the version\n\n"
		       "examples:\n"
		       "  trapline watch -p $(pidof redis-server) server.dirty --stack\n"
		       "  trapline race -- ./program",
		       has_color);
}

static const struct command *command_named(const char *name)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (!strcmp(name, commands[i].name))
			return &commands[i];
	return NULL;
}

static int unknown_command(const char *name)
{
	const char *best = NULL;
	unsigned int best_score = NEAR_NOT;

	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		unsigned int score = near_score(name, commands[i].name);
		if (score < best_score) {
			best_score = score;
			best = commands[i].name;
		}
	}
	if (best)
		return cli_wrong(NULL, "unknown command '%s'; did you mean %s?", name, best);
	return cli_wrong(NULL, "unknown command '%s'; see trapline --help", name);
}

static int help(const char *name)
{
	const struct command *command = name ? command_named(name) : NULL;
	char help_option[] = "--help";

	if (name && !command)
		return unknown_command(name);
	if (command)
		return command->run(2, (char *[]){ (char *)(uintptr_t)name, help_option, NULL });
	print_help(stdout);
	return CLI_OK;
}

/* For the completion scripts and the tests of the man pages. */
static int dump_options(void)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		printf("command\t%s\t%s\n", commands[i].name, commands[i].help);
		opts_dump(commands[i].syntax);
	}
	return CLI_OK;
}

static void ignore(int number)
{
}

/*
 * A write to a closed pipe, or to a file behind the limit of file sizes, is then an error, after
 * which losses are counted. A handler and not SIG_IGN, which a started program would inherit.
 */
static void catch_failed_writes(void)
{
	static const int signals[] = { SIGPIPE, SIGXFSZ };
	const struct sigaction sa = { .sa_handler = ignore, .sa_flags = SA_RESTART };
	struct sigaction old;

	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler == SIG_DFL)
			sigaction(signals[i], &sa, NULL);
}

/* What a command printed must have arrived. A reader that has seen enough needs no message. */
static int check_output(const char *command, int status)
{
	int err = standard_output_error();

	if (!err)
		return status;
	if (!status && err != EPIPE)
		cli_wrong(command, "cannot write standard output: %s", strerror(err));
	return status ? status : CLI_NO;
}

static bool is_number(const char *text)
{
	return *text && !text[strspn(text, "0123456789")];
}

/* `trapline PID VARIABLE`: what most runs are. */
static int watch_process(int argc, char **argv)
{
	char name[] = "watch";
	char option[] = "-p";
	char **words = calloc((size_t)argc + 2, sizeof(*words));

	if (!words)
		return cli_wrong(NULL, "out of memory");
	words[0] = name;
	words[1] = option;
	memcpy(words + 2, argv + 1, ((size_t)argc - 1) * sizeof(*words));
	int status = cmd_watch(argc + 1, words);
	free(words);
	return status;
}

static int run(const char *name, int argc, char **argv)
{
	if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help"))
		return help(argv[2]);
	if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
		printf("trapline %s\n", TRAPLINE_VERSION_STRING);
		return CLI_OK;
	}
	if (!strcmp(name, "--dump-options"))
		return dump_options();
	if (is_number(name))
		return watch_process(argc, argv);
	const struct command *command = command_named(name);
	return command ? command->run(argc - 1, argv + 1) : unknown_command(name);
}

int main(int argc, char **argv)
{
	inherited_note();
	probe_owner_use();
	catch_failed_writes();
	standard_output_keep();
	if (argc < 2) {
		print_help(stderr);
		return CLI_USAGE;
	}
	const struct command *command = command_named(argv[1]);
	return check_output(command ? command->name : NULL, run(argv[1], argc, argv));
}
