// SPDX-License-Identifier: MIT
/* at.c - see at.h. */
#include "cli/at.h"

#include "cli/cmd.h"
#include "cli/condition.h"
#include "cli/opts.h"
#include "report/near.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong_form(const char *command, const char *text)
{
	return cli_wrong(command, "a point is PLACE#N, such as malloc#1000, or 'PLACE#N if COND', not "
			 "'%s'", text);
}

int at_parse(const char *command, const char *text, struct at_point *out)
{
	const char *hash = strchr(text, '#');
	unsigned long long nth;
	char digits[24];

	memset(out, 0, sizeof(*out));
	if (!hash || hash == text || (size_t)(hash - text) >= AT_TEXT)
		return wrong_form(command, text);
	size_t n = strcspn(hash + 1, " ");
	if (n >= sizeof(digits))
		return wrong_form(command, text);
	memcpy(digits, hash + 1, n);
	digits[n] = '\0';
	if (opts_number(digits, 10, &nth) || !nth)
		return cli_wrong(command, "passes are counted from 1, and '%s' is none", digits);
	memcpy(out->place, text, (size_t)(hash - text));
	out->nth = nth;
	const char *rest = hash + 1 + n;
	rest += strspn(rest, " ");
	if (!*rest)
		return CLI_OK;
	if (strncmp(rest, "if ", 3) != 0 || strlen(rest + 3) >= AT_TEXT)
		return wrong_form(command, text);
	snprintf(out->condition, sizeof(out->condition), "%s", rest + 3);
	return cli_condition_check(command, out->condition);
}

/* endbr64 cannot be probed cheaply; nothing has changed after it. */
static uint64_t skip_endbr(struct symbols *s, uint64_t address)
{
	static const unsigned char endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	unsigned char there[sizeof(endbr64)];

	if (symbols_read(s, address, there, sizeof(there)))
		return address;
	return memcmp(there, endbr64, sizeof(there)) ? address : address + sizeof(there);
}

static int wrong_place(const char *command, struct symbols *s, const char *place)
{
	const char *names[3];
	struct near_list list = { .wanted = place, .names = names, .max = 3 };
	char question[300];

	symbols_near_functions(s, &list);
	near_question(&list, question, sizeof(question));
	return cli_wrong(command, "no function '%s'%s", place, question);
}

static int find_place(const char *command, struct symbols *s, struct at_point *point)
{
	char name[AT_TEXT];
	unsigned long long offset = 0;
	struct variable found;

	snprintf(name, sizeof(name), "%s", point->place);
	if (!strncmp(name, "0x", 2) && !opts_number(name, 0, &offset)) {
		point->address = offset;
		return CLI_OK;
	}
	char *plus = strrchr(name, '+');
	if (plus && !opts_number(plus + 1, 0, &offset))
		*plus = '\0';
	int err = symbols_find(s, name, &found);
	if (err && err != -ENOTUNIQ)
		return wrong_place(command, s, name);
	if (!found.is_function)
		return cli_wrong(command, "%s is no function", name);
	point->address = plus ? found.address + offset : skip_endbr(s, found.address);
	return CLI_OK;
}

int at_resolve(const char *command, struct symbols *s, struct at_point *point)
{
	const struct condition_names names = { .symbols = s };
	int status = find_place(command, s, point);

	if (status || !point->condition[0])
		return status;
	return cli_condition(command, point->condition, &names, &point->parsed);
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
