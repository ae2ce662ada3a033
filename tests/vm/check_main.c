/* SPDX-License-Identifier: MIT */
/* check_main.c - `trapline check --json` alone, for a machine that the command is not built for. */
#include "cli/cmd.h"
#include "cli/opts.h"

#include <stdarg.h>
#include <stdio.h>

int cli_wrong(const char *command, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "trapline %s: ", command);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	return CLI_USAGE;
}

/* Without getopt and the names of report/: the first option of the table is --json. */
int opts_parse(const struct opt_syntax *syntax, int argc, char **argv, void *settings, int *status)
{
	*(int *)((char *)settings + syntax->options[0].offset) = 1;
	return argc;
}

int main(int argc, char **argv)
{
	return cmd_check(argc, argv);
}
