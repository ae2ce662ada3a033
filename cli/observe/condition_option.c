/* SPDX-License-Identifier: MIT */
/* condition_option.c - see condition_option.h. */
#include "cli/observe/condition_option.h"

#include "cli/message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPLAIN_BYTES (8u << 20)

/* Prints the error, the line of the condition, and a mark under the column. */
static int print_wrong(const char *command, const char *text, const struct expression_error *error)
{
	const char *option = strcmp(command, "at") ? "--if" : "condition"; /* of a point */
	const char *line = text;
	int column = error->column;

	if (!column)
		return cli_wrong(command, "%s: %s", option, error->text);
	for (int length; (length = (int)strcspn(line, "\n") + 1) < column && line[length - 1];) {
		line += length;
		column -= length;
	}
	cli_wrong(command, "%s, column %d: %s", option, column, error->text);
	fprintf(stderr, "  %.*s\n  %*s^\n", (int)strcspn(line, "\n"), line, column - 1, "");
	return CLI_USAGE;
}

int cli_condition(const char *command, const char *text, const struct condition_names *names,
		  struct condition_parts *out)
{
	struct expression_error error;
	int err = condition_make(names, text, out, &error);

	return !err	      ? CLI_OK :
	       err == -ENOMEM ? cli_wrong(command, "out of memory") :
				print_wrong(command, text, &error);
}

int cli_condition_check(const char *command, const char *text)
{
	const struct condition_names names = { 0 };
	struct condition_parts parts = { 0 };
	int status = cli_condition(command, text, &names, &parts);

	trapline_condition_free(parts.entry);
	return status;
}

int cli_condition_explain(const char *command, const struct trapline_condition *condition)
{
	char *text = malloc(EXPLAIN_BYTES);
	int len = text ? trapline_condition_explain(condition, text, EXPLAIN_BYTES) : -ENOMEM;

	if (len >= 0)
		fputs(text, stdout);
	free(text);
	return len < 0 ? cli_wrong(command, "out of memory") : CLI_OK;
}
