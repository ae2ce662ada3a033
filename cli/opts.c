/* SPDX-License-Identifier: MIT */
/* opts.c - parse a table of options, and print it. */
#include "cli/opts.h"

#include "cli/message.h"
#include "cli/terminal.h"
#include "report/dwarf/near.h"

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
#include <unistd.h>

#define OPTIONS_MAX 48
#define SLICE_MAX_NS UINT64_C(1000000000)

const struct opt *opts_next(const struct opt_syntax *syntax, const struct opt *o)
{
	for (o = o ? o + 1 : syntax->options; o < syntax->options + syntax->count; o++)
		if (o->kind < OPT_KINDS || o->kind & syntax->bits)
			return o;
	return NULL;
}

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

int opts_time(const char *text, uint64_t *out)
{
	static const struct {
		const char *unit;
		double seconds;
	} units[] = { { "", 1 },      { "s", 1 },  { "ms", 1e-3 }, { "us", 1e-6 },
		      { "ns", 1e-9 }, { "m", 60 }, { "h", 3600 } };
	char *end;

	if (!isdigit((unsigned char)text[0]) && text[0] != '.')
		return -1;
	double value = strtod(text, &end);
	if (end == text || !isfinite(value))
		return -1;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		double seconds = value * units[i].seconds;
		if (strcmp(end, units[i].unit) != 0)
			continue;
		if (seconds <= 0 || seconds > 1e9)
			return -1;
		*out = (uint64_t)(seconds * 1e9);
		return 0;
	}
	return -1;
}

int opts_percent(const char *text, double *out)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || (*end && strcmp(end, "%") != 0) || !isfinite(value) || value <= 0)
		return -1;
	*out = value;
	return 0;
}

int opts_size(const char *text, uint64_t *bytes)
{
	static const char units[] = "KMG";
	size_t digits = strspn(text, "0123456789");
	const char *unit = text[digits] ? strchr(units, text[digits]) : NULL;
	unsigned int shift = unit ? 10 * (unsigned int)(unit - units + 1) : 0;
	unsigned long long number;
	char copy[16];

	snprintf(copy, sizeof(copy), "%.*s", (int)digits, text);
	if (digits >= sizeof(copy) || opts_number(copy, 10, &number) || number > UINT64_MAX >> 40 ||
	    (text[digits] && (!unit || text[digits + 1])))
		return -1;
	*bytes = (uint64_t)number << shift;
	return 0;
}

static int wrong_value(const struct opt_syntax *syntax, const struct opt *o, const char *text,
		       const char *wanted)
{
	return cli_wrong(syntax->command, "invalid --%s '%s': expected %s", o->name, text, wanted);
}

static int choice_set(const struct opt_syntax *syntax, const struct opt *o, const char *text,
		      const char **out)
{
	size_t n = strlen(text);

	for (const char *p = o->argument; n && (p = strstr(p, text)); p++) {
		bool begins = p == o->argument || p[-1] == '|';
		if (begins && (p[n] == '|' || !p[n])) {
			*out = text;
			return 0;
		}
	}
	return wrong_value(syntax, o, text, o->argument);
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

int opts_pids_add(struct opt_pids *pids, pid_t pid)
{
	const size_t step = 64;

	if (pids->count % step == 0) {
		pid_t *more = realloc(pids->pid, (pids->count + step) * sizeof(*more));
		if (!more)
			return -1;
		pids->pid = more;
	}
	pids->pid[pids->count++] = pid;
	return 0;
}

/* `4711` or `4711,4712`. 0 or -1. */
static int pids_read(struct opt_pids *pids, const char *text)
{
	unsigned long long number;
	char one[16];
	size_t n;

	for (;; text += n + 1) {
		n = strcspn(text, ",");
		snprintf(one, sizeof(one), "%.*s", (int)n, text);
		if (n >= sizeof(one) || opts_number(one, 10, &number) || !number ||
		    number > INT_MAX || opts_pids_add(pids, (pid_t)number))
			return -1;
		if (!text[n])
			return 0;
	}
}

/* Store one option. Returns 0, or an exit status. */
static int option_set(const struct opt_syntax *syntax, const struct opt *o, const char *text,
		      void *settings)
{
	void *member = (char *)settings + o->offset;
	unsigned long long number;

	switch ((enum opt_kind)(o->kind % OPT_KINDS)) {
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
			return wrong_value(syntax, o, text, "a whole number (example: 10)");
		*(uint64_t *)member = number;
		return 0;
	case OPT_TIME:
		if (opts_time(text, member))
			return wrong_value(syntax, o, text,
					   "a time (examples: 10 for seconds, 0.5, 20ms, 5m)");
		return 0;
	case OPT_SLICE:
		if (opts_time(text, member) || *(uint64_t *)member > SLICE_MAX_NS)
			return wrong_value(syntax, o, text, "a time of at most 1s (example: 10ms)");
		return 0;
	case OPT_CHOICE:
		return choice_set(syntax, o, text, member);
	case OPT_BUDGET:
		if (!strcmp(text, "none"))
			*(double *)member = 0;
		else if (opts_percent(text, member))
			return wrong_value(syntax, o, text, "a percentage or none (example: 10%)");
		return 0;
	case OPT_PERCENT:
		if (opts_percent(text, member))
			return wrong_value(syntax, o, text, "a percentage (example: 2%)");
		return 0;
	case OPT_PIDS:
		return pids_read(member, text) ?
			       wrong_value(syntax, o, text,
					   "process ids (example: 4711 or 4711,4712)") :
			       0;
	case OPT_PID:
		if (opts_number(text, 10, &number) || !number || number > INT_MAX)
			return wrong_value(syntax, o, text, "a process id (example: 4711)");
		if (*(pid_t *)member && *(pid_t *)member != (pid_t)number)
			return cli_wrong(syntax->command,
					 "--%s is given twice, %d and %llu: give one "
					 "process",
					 o->name, *(pid_t *)member, number);
		*(pid_t *)member = (pid_t)number;
		return 0;
	}
	return CLI_USAGE;
}

static bool is_optional(const struct opt *o)
{
	return o->argument && o->argument[0] == '[';
}

#define LONG_BASE 256 /* getopt returns this plus the index of an option */

static const struct opt *option_named(const struct opt_syntax *syntax, const char *name)
{
	for (const struct opt *o = NULL; (o = opts_next(syntax, o));)
		if (!strcmp(o->name, name))
			return o;
	return NULL;
}

/* What getopt returned, or NULL. */
static const struct opt *option_of(const struct opt_syntax *syntax, int c)
{
	if (c >= LONG_BASE)
		return &syntax->options[c - LONG_BASE];
	for (const struct opt *o = NULL; (o = opts_next(syntax, o));)
		if (c && o->letter == c)
			return o;
	return NULL;
}

#define LEFT_MIN 16
#define LEFT_MAX 26 /* a longer one has a line of its own */

/* `-o, --output FILE`. Returns its width. */
static int left_text(const struct opt *o, char *text, size_t n)
{
	char letter[8] = "    ";

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	return snprintf(text, n, "%s--%s%s%s", letter, o->name,
			o->argument && !is_optional(o) ? " " : "", o->argument ? o->argument : "");
}

static int left_width(const struct opt_syntax *syntax)
{
	int most = LEFT_MIN;
	char text[96];

	for (const struct opt *o = NULL; (o = opts_next(syntax, o));) {
		int width = left_text(o, text, sizeof(text));
		if (width > most && width <= LEFT_MAX)
			most = width;
	}
	return most;
}

static void print_option(const struct opt *o, int width)
{
	char left[96];

	if (left_text(o, left, sizeof(left)) > width)
		printf("  %s\n  %-*s  ", left, width, "");
	else
		printf("  %-*s  ", width, left);
	terminal_wrap(stdout, o->help, width + 4);
}

static void opts_print_help(const struct opt_syntax *syntax)
{
	bool has_color = terminal_has_color(STDOUT_FILENO);
	int width = left_width(syntax);
	char usage[1024];

	snprintf(usage, sizeof(usage), "usage: trapline %s %s", syntax->command, syntax->usage);
	terminal_print(stdout, usage, has_color);
	putchar('\n');
	terminal_print(stdout, syntax->about, has_color);
	putchar('\n');
	terminal_print(stdout, "options:", has_color);
	for (const struct opt *o = NULL; (o = opts_next(syntax, o));)
		print_option(o, width);
	printf("  %-*s  print this text\n", width, "-h, --help");
	if (syntax->tail) {
		putchar('\n');
		terminal_print(stdout, syntax->tail, has_color);
	}
}

static int unknown_letter(const struct opt_syntax *syntax, char letter)
{
	const struct opt *like = NULL;

	for (const struct opt *o = NULL; (o = opts_next(syntax, o));) {
		if (o->letter && tolower(o->letter) == tolower(letter))
			return cli_wrong(syntax->command,
					 "unknown option '-%c'; did you mean -%c "
					 "(--%s)?",
					 letter, o->letter, o->name);
		if (!o->letter && o->name[0] == tolower(letter) && !like)
			like = o;
	}
	if (like)
		return cli_wrong(syntax->command, "unknown option '-%c'; did you mean --%s?",
				 letter, like->name);
	return cli_wrong(syntax->command, "unknown option '-%c'; see trapline %s --help", letter,
			 syntax->command);
}

/* Names that begin with this one, as `--stack or --stop`. Returns how many. */
static size_t names_that_begin(const struct opt_syntax *syntax, const char *name, char *text,
			       size_t size)
{
	size_t used = 0;
	size_t found = 0;

	for (const struct opt *o = NULL; (o = opts_next(syntax, o));)
		if (!strncmp(o->name, name, strlen(name)) && used < size)
			used += (size_t)snprintf(text + used, size - used, "%s--%s",
						 found++ ? " or " : "", o->name);
	return found;
}

static int wrong_option(const struct opt_syntax *syntax, const char *arg)
{
	const char *names[1];
	struct near_list near = { .names = names, .max = 1 };
	char begun[256] = "";
	char name[64];

	if (strncmp(arg, "--", 2) != 0)
		return unknown_letter(syntax, (char)optopt);
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
	if (option_of(syntax, optopt))
		return cli_wrong(syntax->command, "--%s takes no value", name);
	if (names_that_begin(syntax, name, begun, sizeof(begun)))
		return cli_wrong(syntax->command, "ambiguous option '--%s': write %s", name, begun);
	near.wanted = name;
	for (const struct opt *o = NULL; (o = opts_next(syntax, o));)
		near_add(&near, o->name);
	/* In a word of few letters two wrong ones make another word. */
	if (near.count && 3 * near.scores[0] <= strlen(name) + 1)
		return cli_wrong(syntax->command, "unknown option '--%s'; did you mean --%s?", name,
				 names[0]);
	return cli_wrong(syntax->command, "unknown option '--%s'; see trapline %s --help", name,
			 syntax->command);
}

static int argument_of(const struct opt *o)
{
	return is_optional(o) ? optional_argument : o->argument ? required_argument : no_argument;
}

static char *add_letter(char *shorts, char letter, const struct opt *o)
{
	if (!letter)
		return shorts;
	*shorts++ = letter;
	if (o->argument)
		*shorts++ = ':';
	return shorts;
}

/* getopt's view of the table. */
static void make_getopt(const struct opt_syntax *syntax, struct option *longs, char *shorts)
{
	*shorts++ = ':'; /* a missing argument returns ':' */
	for (const struct opt *o = NULL; (o = opts_next(syntax, o));) {
		*longs++ = (struct option){ o->name, argument_of(o), NULL,
					    LONG_BASE + (int)(o - syntax->options) };
		shorts = add_letter(shorts, o->letter, o);
	}
	*longs++ = (struct option){ "help", 0, NULL, 'h' };
	*longs = (struct option){ 0 };
	strcpy(shorts, "h");
}

/* `-json` is letters to getopt: -j -s -o n. */
static int words_check(const struct opt_syntax *syntax, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *name = argv[i][0] == '-' ? argv[i] + 1 : "";

		if (strlen(name) > 2 && (option_named(syntax, name) || !strcmp(name, "help")))
			return cli_wrong(syntax->command, "unknown option '%s'; did you mean -%s?",
					 argv[i], argv[i]);
	}
	return CLI_OK;
}

int opts_parse(const struct opt_syntax *syntax, int argc, char **argv, void *settings, int *status)
{
	struct option longs[OPTIONS_MAX + 2];
	char shorts[2 * OPTIONS_MAX + 3];
	int c;

	make_getopt(syntax, longs, shorts);
	*status = words_check(syntax, argc, argv);
	if (*status)
		return -1;
	opterr = 0;
	optind = 0;
	while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const struct opt *o = option_of(syntax, c);
		if (c == 'h') {
			opts_print_help(syntax);
			*status = CLI_OK;
			return -1;
		}
		if (c == ':') {
			*status = cli_wrong(syntax->command, "%s needs a value", argv[optind - 1]);
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

void opts_dump(const struct opt_syntax *syntax)
{
	static const char *const kinds[] = {
		[OPT_FLAG] = "flag",   [OPT_STRING] = "string",	 [OPT_LIST] = "list",
		[OPT_COUNT] = "count", [OPT_TIME] = "time",	 [OPT_PID] = "pid",
		[OPT_PIDS] = "pid",    [OPT_CHOICE] = "choice",	 [OPT_PERCENT] = "percent",
		[OPT_SLICE] = "time",  [OPT_BUDGET] = "percent",
	};

	for (const struct opt *o = NULL; (o = opts_next(syntax, o));) {
		const char letter[] = { o->letter ? o->letter : '-', '\0' };
		printf("option\t%s\t%s\t%s\t%s\t%s\t%s\n", syntax->command, o->name, letter,
		       kinds[o->kind % OPT_KINDS], o->argument ? o->argument : "-", o->help);
	}
}
