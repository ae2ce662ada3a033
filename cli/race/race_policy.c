/* SPDX-License-Identifier: MIT */
/*
 * race_policy.c - `trapline race` in a project's checks: suppressions, a baseline, SARIF.
 *
 * An error in any of the files is reported before the program starts: at the end of a long run it
 * would be too late.
 */
#include "cli/race/race_policy.h"

#include "cli/cmd.h"
#include "report/race/race_baseline.h"
#include "report/race/race_totals.h"
#include "report/safe/private_file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND "race"

static int add_file(struct suppressions *s, const char *path)
{
	char error[PATH_MAX + 400];

	return suppressions_read(s, path, error, sizeof(error)) ? cli_wrong(COMMAND, "%s", error) :
								  0;
}

/* TRAPLINE_SUPPRESSIONS: files, with colons between them. */
static int add_environment(struct suppressions *s)
{
	const char *list = getenv("TRAPLINE_SUPPRESSIONS");
	char *copy = list ? strdup(list) : NULL;
	char *rest = copy;
	int status = 0;

	if (list && !copy)
		return cli_wrong(COMMAND, "out of memory");
	for (char *path; !status && (path = strsep(&rest, ":"));)
		if (*path)
			status = add_file(s, path);
	free(copy);
	return status;
}

static int read_suppressions(const struct race_cli_settings *set, struct race_policy *policy)
{
	if (suppressions_new(&policy->suppressions) || suppressions_add_known(policy->suppressions))
		return cli_wrong(COMMAND, "out of memory");
	int status = add_environment(policy->suppressions);
	for (size_t i = 0; i < set->suppressions.count && !status; i++)
		status = add_file(policy->suppressions, set->suppressions.texts[i]);
	return status;
}

static int read_syntax(const struct race_cli_settings *set, struct race_policy *policy)
{
	const char *text = set->gen_suppressions;

	if (!text)
		return 0;
	if (!*text || !strcmp(text, "tsan"))
		policy->syntax = RACE_SUPPRESS_TSAN;
	else if (!strcmp(text, "valgrind"))
		policy->syntax = RACE_SUPPRESS_VALGRIND;
	else
		return cli_wrong(COMMAND,
				 "invalid --gen-suppressions '%s': expected tsan or valgrind",
				 text);
	return 0;
}

/* Can a file be put there? Only a folder that can be written takes a new one. */
static int check_folder(const char *option, const char *path)
{
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%s", path);
	char *slash = strrchr(folder, '/');
	if (!slash)
		strcpy(folder, ".");
	else
		slash[slash == folder] = '\0';
	if (access(folder, W_OK | X_OK))
		return cli_wrong(COMMAND, "cannot write %s (%s): %s", path, option,
				 strerror(errno));
	return 0;
}

static int read_baseline(const struct race_cli_settings *set, struct race_policy *policy)
{
	char error[PATH_MAX + 400];

	if (!set->baseline)
		return set->write_baseline ? cli_wrong(COMMAND, "--write-baseline needs --baseline "
								"FILE") :
					     0;
	if (baseline_new(&policy->baseline))
		return cli_wrong(COMMAND, "out of memory");
	int err = baseline_read(policy->baseline, set->baseline, error, sizeof(error));
	if (err && err != -ENOENT)
		return cli_wrong(COMMAND, "%s", error);
	return err || set->write_baseline ? check_folder("--baseline", set->baseline) : 0;
}

int race_policy_open(const struct race_cli_settings *set, struct race_policy *policy)
{
	int status = read_suppressions(set, policy);

	policy->frames_max = set->frames;
	policy->is_each = set->each != 0;
	if (!status)
		status = read_syntax(set, policy);
	if (!status)
		status = read_baseline(set, policy);
	if (!status && set->sarif)
		status = check_folder("--sarif", set->sarif);
	return status;
}

void race_policy_close(struct race_policy *policy)
{
	suppressions_free(policy->suppressions);
	baseline_free(policy->baseline);
}

int race_policy_sarif(const struct race_cli_settings *set, struct race_report *r,
		      const struct race_end *end, FILE *f)
{
	struct race_sarif_run run = {
		.program = set->program,
		.ended_s = end->wall_s,
		.started_s = end->wall_s - end->totals->wall_ns / 1000000000u,
		.blind = end->blind,
	};

	run.is_running = end->is_running;
	if (WIFSIGNALED(end->child_status))
		run.signal = WTERMSIG(end->child_status);
	else
		run.exit_code = WEXITSTATUS(end->child_status);
	return race_print_sarif(r, end->totals, set->grade_max, &run, f);
}

static int write_sarif(const struct race_cli_settings *set, struct race_report *r,
		       const struct race_end *end)
{
	FILE *f = private_file(set->sarif);
	int err = f ? race_policy_sarif(set, r, end, f) : -errno;

	if (f && fclose(f) && !err)
		err = -errno;
	return err;
}

static bool is_there(const char *path)
{
	return !access(path, F_OK);
}

/* The first run makes it: but what it found is new, and fails it if a race is to fail a run. */
static int keep_baseline(const struct race_cli_settings *set, struct race_report *r)
{
	size_t added;

	if (!set->write_baseline && is_there(set->baseline))
		return 0;
	int err = baseline_write(race_report_policy(r)->baseline, r, set->grade_max, set->baseline,
				 &added);
	if (!err)
		cli_note(COMMAND, "%zu race%s written to the baseline %s", added,
			 added == 1 ? "" : "s", set->baseline);
	return err;
}

static int told(const char *path, int err)
{
	if (!err)
		return CLI_OK;
	cli_note(COMMAND, "cannot write %s: %s", path, strerror(-err));
	return CLI_NO;
}

int race_policy_end(const struct race_cli_settings *set, struct race_report *r,
		    const struct race_end *end)
{
	int status = CLI_OK;

	if (set->sarif)
		status |= told(set->sarif, write_sarif(set, r, end));
	if (set->baseline)
		status |= told(set->baseline, keep_baseline(set, r));
	return status;
}
