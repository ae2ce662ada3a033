/* SPDX-License-Identifier: MIT */
/* race_settings.c - the options of `trapline race`, and which of them go together. */
#include "cli/race/race_settings.h"

#include "cli/message.h"
#include "cli/observe/session.h"
#include "cli/race/race_launch.h"
#include "cli/race/race_outside.h"
#include "cli/race/race_side.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "race"
#define SWEEP_NS 10000000000u
#define DELAY_MAX_NS 10000000000u
#define OVERHEAD_MAX 1000.0
#define PPM_PER_PERCENT 10000.0

static const struct opt options[] = {
#define AT(member) offsetof(struct race_cli_settings, member)
	{ "pid", 'p', OPT_PID, AT(pid), "PID", "attach to a running process" },
	{ "for", 0, OPT_TIME, AT(for_ns), "TIME",
	  "end the search after TIME; with --sweep or --replay, start no new run" },
	{ "overhead", 0, OPT_PERCENT, AT(overhead), "PERCENT",
	  "limit the cost of the search (default: 2%; with --sweep 300%)" },
	{ "grade", 0, OPT_CHOICE, AT(grade), "A|B|C",
	  "report races down to this grade (default: B)" },
	{ "each", 0, OPT_FLAG, AT(each), NULL,
	  "report each pair of lines, also of one variable in the same two functions" },
	{ "delay", 0, OPT_TIME, AT(delay_ns), "TIME",
	  "stall each access for TIME (default: adaptive)" },
	{ "sweep", 0, OPT_FLAG, AT(sweep), NULL,
	  "run CMD repeatedly and stall every access in it" },
	{ "until-covered", 0, OPT_COUNT, AT(until_covered), "N",
	  "with --sweep: end after each site that is reached was stalled N times" },
	{ "vary", 0, OPT_LIST, AT(vary), "NAME=VALUE,...",
	  "with --sweep or --replay: vary an environment variable; can be repeated" },
	{ "heap", 0, OPT_FLAG, AT(heap), NULL,
	  "report where the memory of a race was allocated and freed" },
	{ "outside", 0, OPT_FLAG, AT(outside), NULL,
	  "search from outside: load nothing into the process (root only)" },
	{ "inside", 0, OPT_FLAG, AT(inside), NULL,
	  "search by the detector in the process (default)" },
	{ "replay", 0, OPT_STRING, AT(replay), "FINGERPRINT",
	  "search for one known race: stall only its two sites" },
	{ "input", 0, OPT_STRING, AT(input), "FILE",
	  "with --replay: read that race from FILE (written with --json -o FILE)" },
	{ "error-exitcode", 0, OPT_COUNT, AT(error_exitcode), "N",
	  "exit with status N if a race is reported" },
	{ "suppressions", 0, OPT_LIST, AT(known.suppressions), "FILE",
	  "ignore the races that FILE lists; can be repeated" },
	{ "gen-suppressions", 0, OPT_FLAG, AT(gen_suppressions), NULL,
	  "print a suppression with each race" },
	{ "baseline", 0, OPT_STRING, AT(known.baseline), "FILE",
	  "report only races that are not in FILE; create FILE if it does not exist" },
	{ "write-baseline", 0, OPT_FLAG, AT(known.write_baseline), NULL,
	  "add the races of this run to the baseline" },
	{ "frames", 0, OPT_COUNT, AT(frames), "N", "print at most N frames of each stack" },
	{ "json", 'j', OPT_FLAG, AT(json), NULL, "print one JSON object per line, to stdout" },
	{ "as", 0, OPT_CHOICE, AT(as), "text|json|sarif",
	  "print the report in this form (default: text)" },
	{ "sarif", 0, OPT_STRING, AT(known.sarif), "FILE",
	  "write SARIF 2.1.0 to FILE, in addition to the report" },
	{ "output", 'o', OPT_STRING, AT(output), "FILE", "write the report to FILE" },
	{ "verbose", 'v', OPT_FLAG, AT(verbose), NULL, "print the full bookkeeping at the end" },
#undef AT
};

const struct opt_syntax race_syntax = {
	.command = COMMAND,
	.usage = "[OPTION...] (-p PID | -- CMD ARG...)",
	.about =
		"Finds data races in an unmodified program. A thread that is about to access memory is\n"
		"stalled for a moment. An access of another thread to the same memory during that stall\n"
		"is a race.\n\n"
		"Grades: A is definite, B is likely, C is probably intentional.",
	.tail = "The report goes to stderr; the output of the program is not changed. The exit status is\n"
		"that of the program, or N of --error-exitcode. Without --for a sweep starts new runs for\n"
		"10 s, and a replay for 60 s.\n\n"
		"examples:\n"
		"  trapline race -- ./server --threads 8\n"
		"  trapline race --sweep --for 1m -- ./test\n"
		"  trapline race -p $(pidof server) --for 60",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
};

static int read_overhead(struct race_cli_settings *set)
{
	double percent = set->overhead > 0 ? set->overhead : set->sweep ? 300 : 2;

	int status = search_check_overhead(&race_search, percent, OVERHEAD_MAX);

	if (status)
		return status;
	set->budget_ppm = (uint64_t)(percent * PPM_PER_PERCENT);
	return 0;
}

static int read_limits(struct race_cli_settings *set)
{
	set->grade_max = set->grade ? (enum race_grade)(set->grade[0] - 'A') : RACE_GRADE_B;
	if (set->delay_ns > DELAY_MAX_NS)
		return cli_wrong(COMMAND,
				 "invalid --delay '%gs': expected at most 10s (example: 1ms)",
				 (double)set->delay_ns / 1e9);
	int status = search_check_exitcode(&race_search, set->error_exitcode);

	return status ? status : read_overhead(set);
}

static int read_form(struct race_cli_settings *set)
{
	bool is_json = set->as && !strcmp(set->as, "json");

	if (set->as && set->json && !is_json)
		return cli_wrong(COMMAND, "cannot print both --json and --as %s: give one of them",
				 set->as);
	set->is_sarif = set->as && !strcmp(set->as, "sarif");
	set->json |= is_json;
	return 0;
}

static int check_target(const struct race_cli_settings *set)
{
	int status = session_check_target(COMMAND, set->pid, set->command);

	if (!status && set->pid && (set->sweep || set->replay))
		return cli_wrong(COMMAND,
				 "cannot combine --%s with -p: it runs a command repeatedly; "
				 "give -- CMD ARG...",
				 set->sweep ? "sweep" : "replay");
	if (!status && set->pid && set->heap)
		return cli_wrong(COMMAND,
				 "cannot combine --heap with -p: it records each allocation "
				 "from the start; give -- CMD ARG...");
	return status;
}

static int read_runs(struct race_cli_settings *set)
{
	if (!set->sweep && set->until_covered)
		return cli_wrong(COMMAND, "--until-covered needs --sweep");
	if (!set->sweep && !set->replay && set->vary.count)
		return cli_wrong(COMMAND,
				 "--vary needs --sweep or --replay, which run CMD repeatedly");
	set->time_ns = set->for_ns ? set->for_ns : set->until_covered ? UINT64_MAX : SWEEP_NS;
	return 0;
}

static void name_program(struct race_cli_settings *set)
{
	char link[64];

	if (set->command) {
		snprintf(set->program, sizeof(set->program), "%s", set->command[0]);
		return;
	}
	snprintf(link, sizeof(link), "/proc/%d/exe", set->pid);
	ssize_t n = readlink(link, set->program, sizeof(set->program) - 1);
	set->program[n > 0 ? n : 0] = '\0';
}

int race_settings_read(struct race_cli_settings *set, int argc, char **argv)
{
	int status = 0;
	int n = session_cut_command(COMMAND, argc, argv, &set->command);

	if (n < 0)
		return CLI_USAGE;
	int first = opts_parse(&race_syntax, n, argv, set, &status);
	if (first < 0)
		return status ? status : -1;
	if (first < n)
		return cli_wrong(COMMAND, "unexpected argument '%s': give the command after --",
				 argv[first]);
	status = check_target(set);
	if (!status)
		status = read_limits(set);
	if (!status)
		status = read_form(set);
	if (!status)
		status = read_runs(set);
	if (!status)
		status = race_outside_check(set);
	if (!status)
		race_side_choose(set);
	if (!status && set->command && !set->outside)
		status = race_command_check(set);
	name_program(set);
	return status;
}
