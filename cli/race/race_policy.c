/* SPDX-License-Identifier: MIT */
/* race_policy.c - `trapline race` in a project's checks: suppressions, a baseline, SARIF. */
#include "cli/race/race_policy.h"

#include "cli/message.h"
#include "cli/search/known_errors.h"
#include "cli/search/search_end.h"
#include "report/finding/baseline.h"
#include "report/plural.h"
#include "report/race/race_totals.h"
#include "report/safe/private_file.h"

#include <errno.h>

#define COMMAND "race"

int race_policy_open(const struct race_cli_settings *set, struct race_policy *policy)
{
	struct known_errors known;
	const int status = known_open(COMMAND, &set->known, &known);

	policy->suppressions = known.suppressions;
	policy->baseline = known.baseline;
	policy->frames_max = set->frames;
	policy->is_each = set->each != 0;
	policy->gives_suppressions = set->gen_suppressions != 0;
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
	struct sarif_run run = {
		.program = set->program,
		.blind = end->blind,
		.deaths = end->deaths,
		.death_count = end->death_count,
	};

	run.is_running = end->is_running;
	search_sarif_run(&run, end->totals->wall_ns, end->child_status);
	const struct race_sarif sarif = {
		.totals = end->totals,
		.failures = end->failures,
		.grade_max = set->grade_max,
	};
	return race_print_sarif(r, &sarif, &run, f);
}

static int write_sarif(const struct race_cli_settings *set, struct race_report *r,
		       const struct race_end *end)
{
	FILE *f = private_file(set->known.sarif);
	const int err = f ? race_policy_sarif(set, r, end, f) : -errno;

	return search_file_end(COMMAND, set->known.sarif, f, err);
}

static int keep_baseline(const struct race_cli_settings *set, struct race_report *r,
			 const struct race_failures *failures)
{
	struct baseline *b = race_report_policy(r)->baseline;
	char more[60] = "";
	size_t failed;
	size_t added;

	int err = race_failures_add(failures, b, &failed);
	if (!err)
		err = race_baseline_write(b, r, set->grade_max, set->known.baseline, &added);
	if (err)
		return search_file_end(COMMAND, set->known.baseline, NULL, err);
	if (failed)
		snprintf(more, sizeof(more), " and %zu failure%s", failed, plural(failed));
	cli_note(COMMAND, "%zu race%s%s written to the baseline %s", added, plural(added), more,
		 set->known.baseline);
	return 0;
}

int race_policy_end(const struct race_cli_settings *set, struct race_report *r,
		    const struct race_end *end)
{
	int status = CLI_OK;

	if (set->known.sarif)
		status |= write_sarif(set, r, end);
	if (known_is_written(&set->known))
		status |= keep_baseline(set, r, end->failures);
	return status;
}
