// SPDX-License-Identifier: MIT
/* condition_option.c - see condition_option.h. */
#include "cli/observe/condition_option.h"

#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPLAIN_BYTES (8u << 20)
#define WORD_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$.:->"

static int find_symbol(void *arg, const char *name, uint64_t *address, uint64_t *bytes)
{
	struct variable found;

	/* Without a process only the form can be checked. */
	if (!arg)
		return 0;
	int err = symbols_find(arg, name, &found);
	if (err)
		return err;
	*address = found.address;
	*bytes = found.size;
	return 0;
}

/* Prints the error, the line of the condition, and a mark under the column. */
static int print_wrong(const char *command, const char *text,
		       const struct trapline_condition_error *error)
{
	const char *line = text;

	for (int n = 1; n < error->line && strchr(line, '\n'); n++)
		line = strchr(line, '\n') + 1;
	/* A point has its condition without the option. */
	cli_wrong(command, "%s, column %d: %s", strcmp(command, "at") ? "--if" : "condition",
		  error->column, error->message);
	fprintf(stderr, "  %.*s\n  %*s^\n", (int)strcspn(line, "\n"), line, error->column - 1, "");
	return CLI_USAGE;
}

static int print_wrong_name(const char *command, const char *text,
			    const struct expression_error *from)
{
	struct trapline_condition_error error = { .line = 1, .column = 1 };
	int rest = from->column - 1;

	for (const char *c = text; rest > 0 && *c; c++, rest--) {
		error.column = *c == '\n' ? 1 : error.column + 1;
		error.line += *c == '\n';
	}
	snprintf(error.message, sizeof(error.message), "%.*s", (int)sizeof(error.message) - 1,
		 from->text);
	return print_wrong(command, text, &error);
}

static bool is_term(const char *word)
{
	struct trapline_condition *condition = NULL;
	bool is = trapline_condition_parse(word, NULL, &condition) == 0;

	trapline_condition_free(condition);
	return is;
}

/* An error may quote the text that a name was replaced by: quote the name in the user's text. */
static void quote_user(struct expression_error *error, const char *text)
{
	char *quoted = strstr(error->text, ", not '");
	size_t n = strspn(text, WORD_CHARACTERS);

	if (quoted && n)
		snprintf(quoted, sizeof(error->text) - (size_t)(quoted - error->text),
			 ", not '%.*s'", (int)n, text);
}

/* Parses the text in which names are replaced. An error has the column of the user's text. */
static int parse(const char *command, const char *text, const struct condition_names *names,
		 const struct condition_text *plain, struct trapline_condition **out)
{
	struct trapline_condition_error error = { 0 };
	struct expression_error shown;
	TRAPLINE_OPTS(condition, opts);
	char *bits = condition_for_bits(&names->view, names->len, plain->text);

	opts.find_symbol = find_symbol;
	opts.arg = names->symbols;
	opts.error = &error;
	int err = trapline_condition_parse(bits ? bits : plain->text, &opts, out);
	free(bits);
	if (!err)
		return CLI_OK;
	if (err == -ENOMEM)
		return cli_wrong(command, "out of memory");
	/* plain->text has blanks for line breaks: the column counts from the start. */
	size_t at = 0;
	for (int line = 1; line < error.line && plain->text[at]; at++)
		line += plain->text[at] == '\n';
	at += (size_t)error.column - 1 - (bits ? 1 : 0);
	size_t len = strlen(plain->text);
	shown.column = plain->columns[at < len ? at : len];
	snprintf(shown.text, sizeof(shown.text), "%s", error.message);
	quote_user(&shown, text + shown.column - 1);
	return print_wrong_name(command, text, &shown);
}

int cli_condition(const char *command, const char *text, const struct condition_names *names,
		  struct trapline_condition **out)
{
	struct condition_names all = *names;
	struct expression_error error;
	struct condition_text plain;
	char *bits;

	*out = NULL;
	if (!text) {
		bits = condition_for_bits(&names->view, names->len, NULL);
		int err = bits ? trapline_condition_parse(bits, NULL, out) : 0;
		free(bits);
		return err ? cli_wrong(command, "out of memory") : CLI_OK;
	}
	all.is_term = is_term;
	int err = condition_names(&all, text, &plain, &error);
	if (err == -ENOMEM)
		return cli_wrong(command, "out of memory");
	if (err)
		return print_wrong_name(command, text, &error);
	int status = parse(command, text, &all, &plain, out);
	condition_text_free(&plain);
	return status;
}

int cli_condition_compare(const char *text, const struct condition_names *names,
			  const struct condition_names *other)
{
	struct condition_names sides[2] = { *names, *other };
	struct condition_text plain[2] = { { 0 } };
	struct expression_error error;
	int differs = 0;

	for (int i = 0; i < 2 && !differs; i++) {
		sides[i].is_term = is_term;
		differs = condition_names(&sides[i], text, &plain[i], &error) != 0;
		if (!differs && !i && !plain[0].has_parameters)
			differs = -1;
	}
	if (!differs)
		differs = strcmp(plain[0].text, plain[1].text) != 0;
	for (int i = 0; i < 2; i++)
		condition_text_free(&plain[i]);
	return differs;
}

int cli_condition_check(const char *command, const char *text)
{
	struct condition_names names = { 0 };
	struct trapline_condition *condition;
	int status = cli_condition(command, text, &names, &condition);

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
