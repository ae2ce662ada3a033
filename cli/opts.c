// SPDX-License-Identifier: MIT
/* opts.c - parse a table of options, and print it. */
#include "cli/opts.h"

#include "cli/cmd.h"
#include "report/near.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX 32

int opts_number(const char *text, int base, unsigned long long *out)
{
	char *end;

	/* strtoull() takes "-1" and " 1": not here. */
	if (!isxdigit((unsigned char)text[0]))
		return -1;
	errno = 0;
	unsigned long long value = strtoull(text, &end, base);
	if (errno || *end || end == text)
		return -1;
	*out = value;
	return 0;
}

static int parse_seconds(const char *text, uint64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)text[0]) && text[0] != '.')
		return -1;
	double seconds = strtod(text, &end);
	if (!strcmp(end, "ms") || !strcmp(end, "us")) {
		seconds /= *end == 'm' ? 1e3 : 1e6;
		end += 2;
	} else if (!strcmp(end, "s")) {
		end++;
	}
	if (*end || end == text || !isfinite(seconds) || seconds <= 0 || seconds > 1e9)
		return -1;
	*out = (uint64_t)(seconds * 1e9);
	return 0;
}

static int wrong_value(const struct opt_syntax *syntax, const struct opt *o, const char *text,
		       const char *wanted)
{
	return cli_wrong(syntax->command, "--%s wants %s, not '%s'", o->name, wanted, text);
}

static int list_add(const struct opt_syntax *syntax, const struct opt *o, const char *text,
		    struct opt_list *list)
{
	if (list->count == OPT_LIST_MAX)
		return cli_wrong(syntax->command, "--%s is given more than %d times", o->name,
				 OPT_LIST_MAX);
	list->texts[list->count++] = text;
	return 0;
}

/* Store one option. Returns 0, or an exit status. */
static int option_set(const struct opt_syntax *syntax, const struct opt *o, const char *text,
		      void *settings)
{
	void *member = (char *)settings + o->offset;
	unsigned long long number;

	switch (o->kind) {
	case OPT_FLAG:
		*(int *)member = 1;
		return 0;
	case OPT_STRING:
		*(const char **)member = text ? text : "";
		return 0;
	case OPT_LIST:
		return list_add(syntax, o, text, member);
	case OPT_COUNT:
		if (opts_number(text, 10, &number))
			return wrong_value(syntax, o, text, "a whole number");
		*(uint64_t *)member = number;
		return 0;
	case OPT_SECONDS:
		if (parse_seconds(text, member))
			return wrong_value(syntax, o, text, "seconds, such as 10 or 0.5, or 20ms");
		return 0;
	case OPT_PID:
		if (opts_number(text, 10, &number) || !number || number > INT_MAX)
			return wrong_value(syntax, o, text, "a process id");
		*(pid_t *)member = (pid_t)number;
		return 0;
	}
	return CLI_USAGE;
}

static bool is_optional(const struct opt *o)
{
	return o->argument && o->argument[0] == '[';
}

static void print_help(const struct opt_syntax *syntax)
{
	printf("usage: trapline %s %s\n\n%s\n\noptions:\n", syntax->command, syntax->usage,
	       syntax->about);
	for (size_t i = 0; i < syntax->count; i++) {
		const struct opt *o = &syntax->options[i];
		char left[64];
		char letter[8] = "    ";
		if (o->letter)
			snprintf(letter, sizeof(letter), "-%c, ", o->letter);
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name,
			 o->argument && !is_optional(o) ? " " : "", o->argument ? o->argument : "");
		/* A long one has a line of its own. */
		if (strlen(left) > 24)
			printf("  %s\n  %-24s %s\n", left, "", o->help);
		else
			printf("  %-24s %s\n", left, o->help);
	}
	printf("  %-24s %s\n", "-h, --help", "this text");
	if (syntax->tail)
		printf("\n%s\n", syntax->tail);
}

static int wrong_option(const struct opt_syntax *syntax, const char *arg)
{
	const char *best = NULL;
	unsigned int best_score = NEAR_NOT;
	char name[64];

	if (strncmp(arg, "--", 2) != 0)
		return cli_wrong(syntax->command, "no option '-%c'; see trapline %s --help",
				 optopt ? optopt : '?', syntax->command);
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
	for (size_t i = 0; i < syntax->count; i++) {
		unsigned int score = near_score(name, syntax->options[i].name);
		if (score < best_score) {
			best_score = score;
			best = syntax->options[i].name;
		}
	}
	if (best)
		return cli_wrong(syntax->command, "no option '--%s'; did you mean --%s?", name,
				 best);
	return cli_wrong(syntax->command, "no option '--%s'; see trapline %s --help", name,
			 syntax->command);
}

/* getopt's view of the table. Long options return their index + 256, and so do letters. */
static void make_getopt(const struct opt_syntax *syntax, struct option *longs, char *shorts)
{
	*shorts++ = ':'; /* a missing argument returns ':' */
	for (size_t i = 0; i < syntax->count; i++) {
		const struct opt *o = &syntax->options[i];
		int argument = is_optional(o) ? optional_argument :
			       o->argument    ? required_argument :
						no_argument;
		longs[i] = (struct option){ o->name, argument, NULL, 256 + (int)i };
		if (!o->letter)
			continue;
		*shorts++ = o->letter;
		if (o->argument)
			*shorts++ = ':';
	}
	longs[syntax->count] = (struct option){ "help", 0, NULL, 'h' };
	longs[syntax->count + 1] = (struct option){ 0 };
	strcpy(shorts, "h");
}

static const struct opt *option_of(const struct opt_syntax *syntax, int c)
{
	if (c >= 256)
		return &syntax->options[c - 256];
	for (size_t i = 0; i < syntax->count; i++)
		if (syntax->options[i].letter == c)
			return &syntax->options[i];
	return NULL;
}

int opts_parse(const struct opt_syntax *syntax, int argc, char **argv, void *settings,
	       int *status)
{
	struct option longs[OPTIONS_MAX + 2];
	char shorts[2 * OPTIONS_MAX + 3];
	int c;

	make_getopt(syntax, longs, shorts);
	opterr = 0;
	optind = 0;
	while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const struct opt *o = option_of(syntax, c);
		if (c == 'h') {
			print_help(syntax);
			*status = CLI_OK;
			return -1;
		}
		if (c == ':') {
			*status = cli_wrong(syntax->command, "%s wants a value", argv[optind - 1]);
			return -1;
		}
		if (!o) {
			*status = wrong_option(syntax, argv[optind - 1]);
			return -1;
		}
		*status = option_set(syntax, o, optarg, settings);
		if (*status)
			return -1;
	}
	return optind;
}
