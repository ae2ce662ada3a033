// SPDX-License-Identifier: MIT
/* at.c - see at.h. */
#include "cli/at.h"

#include "cli/at_step.h"
#include "cli/cmd.h"
#include "cli/condition.h"
#include "cli/opts.h"
#include "report/code_sites.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong_form(const char *command, const char *text)
{
	return cli_wrong(command, "a point is PLACE#N, such as malloc#1000, 'PLACE#N if COND', or, with "
			 "--counter, PLACE@AMOUNT, each with +STEPS or without, not '%s'", text);
}

/* Takes `+K` off the end of the number before it. */
static int cut_steps(const char *command, char *digits, struct at_point *out)
{
	unsigned long long number;
	char *plus = strchr(digits, '+');

	if (!plus)
		return CLI_OK;
	*plus = '\0';
	if (opts_number(plus + 1, 10, &number) || number > AT_STEPS_MAX)
		return cli_wrong(command, "steps from a point are a number up to %d, and '+%s' is none",
				 AT_STEPS_MAX, plus + 1);
	out->has_steps = true;
	out->steps = number;
	return CLI_OK;
}

int at_parse(const char *command, const char *text, struct at_point *out)
{
	const char *hash = strchr(text, '#');
	const char *mark = hash ? hash : strrchr(text, '@'); /* names may have one: memcpy@GLIBC_2.14 */
	unsigned long long number;
	char digits[48];

	memset(out, 0, sizeof(*out));
	if (!mark || mark == text || (size_t)(mark - text) >= AT_TEXT)
		return wrong_form(command, text);
	size_t n = strcspn(mark + 1, " ");
	if (n >= sizeof(digits))
		return wrong_form(command, text);
	memcpy(digits, mark + 1, n);
	digits[n] = '\0';
	if (cut_steps(command, digits, out))
		return CLI_USAGE;
	if (opts_number(digits, 10, &number) || (hash && !number))
		return hash ? cli_wrong(command, "passes are counted from 1, and '%s' is none", digits) :
			      wrong_form(command, text);
	memcpy(out->place, text, (size_t)(mark - text));
	*(hash ? &out->nth : &out->amount) = number;
	const char *rest = mark + 1 + n;
	rest += strspn(rest, " ");
	if (!*rest)
		return CLI_OK;
	if (strncmp(rest, "if ", 3) != 0 || strlen(rest + 3) >= AT_TEXT)
		return wrong_form(command, text);
	snprintf(out->condition, sizeof(out->condition), "%s", rest + 3);
	return cli_condition_check(command, out->condition);
}

/* One instruction; copies of an inlined function are several, and a pattern may be. */
static int find_place(const char *command, struct symbols *s, struct at_point *point)
{
	struct code_sites sites = { 0 };
	char why[400];
	int status = CLI_OK;

	if (code_sites_find(s, point->place, &sites, why, sizeof(why)))
		status = cli_wrong(command, "%s", why);
	else if (sites.count != 1)
		status = cli_wrong(command, "%s stands for %zu places, and a point is at one: give its "
				   "module, a line or an address", point->place, sites.count);
	else
		point->address = sites.site[0].address;
	code_sites_free(&sites);
	return status;
}

int at_resolve(const char *command, struct symbols *s, struct at_point *point)
{
	const struct condition_names names = { .symbols = s };
	int status = find_place(command, s, point);

	if (status || !point->condition[0])
		return status;
	return cli_condition(command, point->condition, &names, &point->parsed);
}

int at_counter(const char *name)
{
	static const struct {
		const char *name;
		enum trapline_counter counter;
	} counters[] = {
		{ "branches", TRAPLINE_CONDITIONAL_BRANCHES },
		{ "instructions", TRAPLINE_INSTRUCTIONS },
		{ "cycles", TRAPLINE_CYCLES },
		{ "page-faults", TRAPLINE_PAGE_FAULTS },
		{ "syscalls", TRAPLINE_SYSCALLS },
	};

	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		if (!strcmp(counters[i].name, name))
			return (int)counters[i].counter;
	return -1;
}

int at_signal(const char *text)
{
	unsigned long long number;

	if (!opts_number(text, 10, &number))
		return number > 0 && number < 65 ? (int)number : 0;
	if (!strncasecmp(text, "SIG", 3))
		text += 3;
	for (int i = 1; i < 65; i++) {
		const char *name = sigabbrev_np(i);

		if (name && !strcasecmp(name, text))
			return i;
	}
	return 0;
}
