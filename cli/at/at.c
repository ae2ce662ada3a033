/* SPDX-License-Identifier: MIT */
/* at.c - see at.h. */
#include "cli/at/at.h"

#include "cli/at/at_regs.h"
#include "cli/at/at_step.h"
#include "cli/message.h"
#include "cli/observe/condition_option.h"
#include "cli/opts.h"
#include "report/code/code_sites.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong_form(const char *command, const char *text)
{
	return cli_wrong(command,
			 "invalid point '%s': expected 'LOCATION#N[+K] [if COND]' (example: "
			 "'malloc#1000'), or LOCATION@AMOUNT with --counter",
			 text);
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
		return cli_wrong(command,
				 "invalid step count '+%s': expected 0 to %d (example: +12)",
				 plus + 1, AT_STEPS_MAX);
	if (!at_can_step)
		return cli_wrong(command,
				 "cannot execute instructions after the point: +K needs x86-64");
	out->has_steps = true;
	out->steps = number;
	return CLI_OK;
}

int at_parse(const char *command, const char *text, struct at_point *out)
{
	const char *hash = strchr(text, '#');
	const char *mark = hash ? hash :
				  strrchr(text, '@'); /* names may have one: memcpy@GLIBC_2.14 */
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
		return hash ? cli_wrong(command,
					"invalid occurrence '#%s': expected a number from 1 "
					"(example: #1000)",
					digits) :
			      wrong_form(command, text);
	memcpy(out->location, text, (size_t)(mark - text));
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

static bool is_in_loader(const struct code_site *site)
{
	return site->module &&
	       (!strncmp(site->module, "ld-", 3) || !strncmp(site->module, "ld.", 3));
}

/*
 * The loader has functions of its own that are named like those of libc, such as malloc. They are
 * not what a name without a module means.
 */
static void drop_loader(struct code_sites *sites, const char *location)
{
	size_t kept = 0;

	if (strchr(location, ':'))
		return;
	for (size_t i = 0; i < sites->count; i++)
		kept += !is_in_loader(&sites->site[i]);
	if (!kept || kept == sites->count)
		return;
	kept = 0;
	for (size_t i = 0; i < sites->count; i++) {
		if (is_in_loader(&sites->site[i]))
			free(sites->site[i].name);
		else
			sites->site[kept++] = sites->site[i];
	}
	sites->count = kept;
}

static int wrong_several(const char *command, const char *location, const struct code_sites *sites)
{
	size_t functions = 0;
	size_t copies = 0;
	char what[96];
	char remedy[AT_TEXT + 64] = "give FUNCTION+OFFSET of one";

	for (size_t i = 0; i < sites->count; i++) {
		functions += sites->site[i].kind == CODE_SITE_FUNCTION;
		copies += sites->site[i].kind == CODE_SITE_INLINED;
	}
	if (functions + copies < sites->count)
		snprintf(what, sizeof(what), "%zu instructions", sites->count);
	else if (!copies)
		snprintf(what, sizeof(what), "%zu functions", functions);
	else if (!functions)
		snprintf(what, sizeof(what), "%zu inlined copies", copies);
	else
		snprintf(what, sizeof(what), "%zu function%s and %zu inlined cop%s", functions,
			 functions == 1 ? "" : "s", copies, copies == 1 ? "y" : "ies");
	if (functions == 1 && functions + copies == sites->count)
		snprintf(remedy, sizeof(remedy),
			 "write %s+0 for the function, or FUNCTION+OFFSET of a copy", location);
	return cli_wrong(command,
			 "%s is %s, and a point needs one: %s (trapline break -l '%s' lists them)",
			 location, what, remedy, location);
}

/* Names in it are those of the code around the instruction. */
static int make_condition(const char *command, struct symbols *s, const struct code_site *site,
			  struct at_point *point)
{
	struct condition_names names = { .symbols = s, .site = site };
	struct condition_parts parts = { 0 };
	struct signature *signature = NULL;

	if (!point->condition[0])
		return CLI_OK;
	if (!symbols_is_32bit(s) && !signature_find(s, site, &signature))
		names.signature = signature;
	int status = cli_condition(command, point->condition, &names, &parts);
	point->parsed = parts.entry;
	signature_free(signature);
	return status;
}

/* One instruction: a function may have inlined copies, and a pattern may fit many functions. */
int at_resolve(const char *command, struct symbols *s, struct at_point *point)
{
	struct code_sites sites = { 0 };
	char why[400];
	int status = CLI_OK;

	if (code_sites_find(s, point->location, &sites, why, sizeof(why))) {
		status = cli_wrong(command, "%s", why);
	} else {
		drop_loader(&sites, point->location);
		if (sites.count != 1)
			status = wrong_several(command, point->location, &sites);
		else
			status = make_condition(command, s, &sites.site[0], point);
		if (!status)
			point->address = sites.site[0].address;
	}
	code_sites_free(&sites);
	return status;
}

enum trapline_counter at_counter(const char *name)
{
	static const struct {
		const char *name;
		enum trapline_counter counter;
	} counters[] = {
		{ "branches", TRAPLINE_CONDITIONAL_BRANCHES },
		{ "instructions", TRAPLINE_INSTRUCTIONS },
		{ "cycles", TRAPLINE_CYCLES },
		{ "page-faults", TRAPLINE_PAGE_FAULTS },
	};

	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		if (!strcmp(counters[i].name, name))
			return counters[i].counter;
	return TRAPLINE_SYSCALLS;
}
