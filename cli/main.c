// SPDX-License-Identifier: MIT
/* main.c - the command `trapline`: finds the subcommand and runs it. */
#include "cli/cmd.h"
#include "report/near.h"

#include <trapline/trapline.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{ "break", cmd_break, "who calls a function, with what, and what comes of it" },
	{ "check", cmd_check, "what this machine allows, and what each mechanism costs here" },
	{ "throttle", cmd_throttle, "a program that keeps to a budget of CPU time or page faults" },
	{ "race", cmd_race, "data races of a program, both sides caught in the act" },
	{ "at", cmd_at, "an exact point of an execution: look, stop or signal there" },
	{ "sweep", cmd_sweep, "a signal at every pass of a place: which ones break the program" },
	{ "watch", cmd_watch, "who touches a variable of a running process, and how" },
	{ "record", cmd_record, "the same, into a file" },
	{ "report", cmd_report, "what is in such a file: text, JSON, flame graph, timeline, page" },
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void say(const char *command, const char *kind, const char *format, va_list args)
{
	char line[1024];

	vsnprintf(line, sizeof(line), format, args);
	/* Explanations come with line breaks; an error is one line. */
	for (char *p = line; (p = strchr(p, '\n')) != NULL;)
		*p = ' ';
	fprintf(stderr, "trapline%s%s: %s%s\n", command ? " " : "", command ? command : "", kind,
		line);
}

int cli_wrong(const char *command, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(command, "", format, args);
	va_end(args);
	return CLI_USAGE;
}

void cli_note(const char *command, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(command, "note: ", format, args);
	va_end(args);
}

static void print_help(FILE *f)
{
	fputs("usage: trapline COMMAND [OPTION...]\n\n"
	      "Tells which code of which thread touches a piece of memory, at the moment it does.\n\n"
	      "commands:\n", f);
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].help);
	fputs("\noptions:\n"
	      "  -h, --help     this text; `trapline COMMAND --help` for a command\n"
	      "  -V, --version  the version\n", f);
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
		return cli_wrong(NULL, "no command '%s'; did you mean %s?", name, best);
	return cli_wrong(NULL, "no command '%s'; see trapline --help", name);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return CLI_USAGE;
	}
	const char *name = argv[1];
	if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
		print_help(stdout);
		return CLI_OK;
	}
	if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
		printf("trapline %s\n", TRAPLINE_VERSION_STRING);
		return CLI_OK;
	}
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (!strcmp(name, commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	return unknown_command(name);
}
