/* SPDX-License-Identifier: MIT */
/* heap_settings.c - see heap_settings.h. What cannot work is refused before the program starts. */
#include "cli/heap/heap_settings.h"

#include "base/clock.h"
#include "cli/message.h"
#include "cli/observe/session.h"
#include "cli/search/search_check.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define COMMAND "heap"
#define OVERHEAD 2.0
#define ALIGN_MOST 16u
#define SEED_MOST UINT32_MAX

static const struct search_kind kind = {
	.command = COMMAND,
	.verb = "sample",
	.why_not_go = "which does not use malloc(); use its race detector and checkptr",
	.loaded = "detector",
};

static const struct opt options[] = {
#define AT(member) offsetof(struct heap_cli_settings, member)
	{ "pid", 'p', OPT_PID, AT(pid), "PID", "attach to a running process" },
	{ "for", 0, OPT_TIME, AT(for_ns), "TIME", "stop after TIME (example: 30s)" },
	{ "overhead", 0, OPT_PERCENT, AT(overhead), "PERCENT",
	  "spend at most PERCENT of the CPU time on samples (default 2%)" },
	{ "first", 0, OPT_COUNT, AT(first), "N",
	  "sample the first N blocks of each calling context, without a limit of the cost" },
	{ "seed", 0, OPT_COUNT, AT(seed), "N",
	  "draw blocks by the number N, as the summary of another run has it" },
	{ "align", 0, OPT_COUNT, AT(align), "N",
	  "align sampled blocks to N bytes (default 16, as malloc); 1 finds each overflow, but "
	  "breaks programs with locks, vectors or tagged pointers in blocks of odd sizes" },
	{ "growth", 0, OPT_FLAG, AT(growth), NULL,
	  "report which stacks allocated what is in use at the end, and what grows; no errors" },
	{ "growth-format", 0, OPT_STRING, AT(growth_format), "FORMAT",
	  "print it as text (default), folded or pprof" },
	{ "stop", 0, OPT_FLAG, AT(stop), NULL, "end the program at the first error" },
	{ "error-exitcode", 0, OPT_COUNT, AT(error_exitcode), "N",
	  "exit with status N if an error is reported" },
	{ "suppressions", 0, OPT_LIST, AT(known.suppressions), "FILE",
	  "ignore the errors that FILE lists; can be repeated" },
	{ "baseline", 0, OPT_STRING, AT(known.baseline), "FILE",
	  "report only errors that are not in FILE; create FILE if it does not exist" },
	{ "write-baseline", 0, OPT_FLAG, AT(known.write_baseline), NULL,
	  "add the errors of this run to the baseline" },
	{ "json", 'j', OPT_FLAG, AT(json), NULL, "print one JSON object per line, to stdout" },
	{ "sarif", 0, OPT_STRING, AT(known.sarif), "FILE",
	  "write the errors to FILE as SARIF 2.1.0, for code scanning" },
	{ "output", 'o', OPT_STRING, AT(output), "FILE", "write the report to FILE" },
	{ "verbose", 'v', OPT_FLAG, AT(verbose), NULL, "print all counters at the end" },
#undef AT
};

const struct opt_syntax heap_syntax = {
	.command = COMMAND,
	.usage = "[OPTION...] {-p PID | -- CMD [ARG...]}",
	.about =
		"Finds heap errors of a program as it is: use after free, double free, invalid free, "
		"overflow and underflow. The program continues after an error.",
	.tail = "Samples some blocks of each calling context, and some of all blocks. Each sampled block ends at a page without "
		"access, and loses access when it is freed.\n\n"
		"examples:\n"
		"  trapline heap -- ./program\n"
		"  trapline heap -p $(pidof server) --for 10m\n"
		"  trapline heap --first 10 --error-exitcode 3 -- ./tests",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
};

/* Where it is refused the clock must do. */
static uint64_t draw_seed(void)
{
	uint32_t random = 0;

	if (getrandom(&random, sizeof(random), 0) < 0)
		random = (uint32_t)clock_now_ns();
	return random ? random : 1;
}

static int check_numbers(struct heap_cli_settings *set)
{
	if (set->align > ALIGN_MOST || (set->align & (set->align - 1)))
		return cli_wrong(COMMAND,
				 "invalid --align '%llu': expected 1, 2, 4, 8 or 16 (example: 16)",
				 (unsigned long long)set->align);
	if (set->seed > SEED_MOST)
		return cli_wrong(COMMAND,
				 "invalid --seed '%llu': expected 1 to 4294967295 (example: 7)",
				 (unsigned long long)set->seed);
	if (!set->seed)
		set->seed = draw_seed();
	set->budget_ppm = (uint64_t)(set->overhead * 10000);
	return search_check_exitcode(&kind, set->error_exitcode);
}

static int check_growth(struct heap_cli_settings *set)
{
	const struct {
		const char *option;
		bool is_given;
	} others[] = {
		{ "first", set->first != 0 },
		{ "stop", set->stop != 0 },
		{ "error-exitcode", set->error_exitcode != 0 },
		{ "sarif", set->known.sarif != NULL },
		{ "baseline", set->known.baseline != NULL },
	};

	if (set->growth_format && !set->growth)
		return cli_wrong(COMMAND, "--growth-format needs --growth");
	for (size_t i = 0; set->growth && i < sizeof(others) / sizeof(others[0]); i++)
		if (others[i].is_given)
			return cli_wrong(COMMAND, "--growth reports no errors: omit --%s",
					 others[i].option);
	set->format = set->json ? HEAP_GROWTH_JSON : HEAP_GROWTH_TEXT;
	if (!set->growth_format)
		return 0;
	if (set->json)
		return cli_wrong(COMMAND, "--json and --growth-format exclude each other");
	return heap_growth_format(set->growth_format, &set->format) ?
		       cli_wrong(COMMAND,
				 "invalid --growth-format '%s': expected text, folded or pprof",
				 set->growth_format) :
		       0;
}

static void name_program(struct heap_cli_settings *set)
{
	static char name[32];
	const char *slash = set->pid ? NULL : strrchr(set->command[0], '/');

	snprintf(name, sizeof(name), "process %d", set->pid);
	set->program = set->pid ? name : slash ? slash + 1 : set->command[0];
}

static int heap_settings_check(struct heap_cli_settings *set, int argc, char **argv, int first)
{
	const char *extra = first < argc ? argv[first] : NULL;

	if (session_check_program(COMMAND, extra, set->pid, set->command))
		return CLI_USAGE;
	int status = search_check_overhead(&kind, set->overhead, 100);
	if (!status)
		status = check_numbers(set);
	if (!status)
		status = check_growth(set);
	if (status)
		return status;
	name_program(set);
	return set->pid ? search_check_process(&kind, set->pid) :
			  search_check_command(&kind, set->command);
}

int heap_settings_read(struct heap_cli_settings *set, int argc, char **argv)
{
	int status = 0;
	int n = session_cut_command(COMMAND, argc, argv, &set->command);

	if (n < 0)
		return CLI_USAGE;
	set->overhead = OVERHEAD;
	set->align = ALIGN_MOST;
	int first = opts_parse(&heap_syntax, n, argv, set, &status);
	if (first < 0)
		return status ? status : -1;
	return heap_settings_check(set, n, argv, first);
}
