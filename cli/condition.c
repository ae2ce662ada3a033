// SPDX-License-Identifier: MIT
/* condition.c - see condition.h. */
#include "cli/condition.h"

#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPLAIN_BYTES (8u << 20)

static int find_symbol(void *arg, const char *name, uint64_t *address, uint64_t *bytes)
{
	struct variable found;

	/* Before there is a process only the form can be checked. */
	if (!arg)
		return 0;
	int err = symbols_find(arg, name, &found);
	if (err)
		return err;
	*address = found.address;
	*bytes = found.size;
	return 0;
}

/* The line that is wrong, with a mark under the place. */
static int say_wrong(const char *command, const char *text,
		     const struct trapline_condition_error *error)
{
	const char *line = text;

	for (int n = 1; n < error->line && strchr(line, '\n'); n++)
		line = strchr(line, '\n') + 1;
	cli_wrong(command, "--if, column %d: %s", error->column, error->message);
	fprintf(stderr, "  %.*s\n  %*s^\n", (int)strcspn(line, "\n"), line, error->column - 1, "");
	return CLI_USAGE;
}

int cli_condition(const char *command, const char *text, struct symbols *symbols,
		  struct trapline_condition **out)
{
	struct trapline_condition_error error = { 0 };
	TRAPLINE_OPTS(condition, opts);

	*out = NULL;
	if (!text)
		return CLI_OK;
	opts.find_symbol = find_symbol;
	opts.arg = symbols;
	opts.error = &error;
	int err = trapline_condition_parse(text, &opts, out);
	if (!err)
		return CLI_OK;
	if (err == -ENOMEM)
		return cli_wrong(command, "out of memory");
	return say_wrong(command, text, &error);
}

int cli_condition_check(const char *command, const char *text)
{
	struct trapline_condition *condition;
	int status = cli_condition(command, text, NULL, &condition);

	trapline_condition_free(condition);
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

void cli_condition_summary(FILE *f, const struct trapline_stats *st)
{
	static const char *const places[] = {
		"nowhere",
		"in the kernel: a rejected hit had no other effect",
		"in the handler: a rejected hit cost a signal",
		"by the reader, on values read later: a rejected hit cost a record",
	};

	fprintf(f, "decided %s", places[st->decided_in % 4]);
	if (st->condition_faults)
		fprintf(f, "; %llu could not be decided (unreadable memory, or a division by 0) and "
			"were rejected", (unsigned long long)st->condition_faults);
	fputc('\n', f);
}
