/* SPDX-License-Identifier: MIT */
/* check_main.c - `trapline check` alone, for a machine that the whole command is not built for. */
#include "cli/cmd.h"

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

int main(int argc, char **argv)
{
	return cmd_check(argc, argv);
}
