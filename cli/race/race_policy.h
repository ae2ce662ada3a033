/* SPDX-License-Identifier: MIT */
/* race_policy.h - what the user does not want to hear of, and what becomes of a run in files. */
#ifndef CLI_RACE_RACE_POLICY_H
#define CLI_RACE_RACE_POLICY_H

#include "cli/race/race_settings.h"
#include "report/race/race_failure.h"

/* 0 or an exit status, line printed. */
int race_policy_open(const struct race_cli_settings *set, struct race_policy *policy);
void race_policy_close(struct race_policy *policy);

/* How a run ended. */
struct race_end {
	const struct race_totals *totals;
	const struct race_failures *failures;
	int child_status;  /* as waitpid() gives it */
	bool is_running;   /* the program is: it has no exit status yet */
	const char *blind; /* why nothing could be searched, or NULL */
	const struct death *const *deaths;
	size_t death_count;
};
/* Writes the report as SARIF. 0 or -errno. */
int race_policy_sarif(const struct race_cli_settings *set, struct race_report *r,
		      const struct race_end *end, FILE *f);
/* Writes --sarif and --baseline to their files. Prints notes. 0 or CLI_NO. */
int race_policy_end(const struct race_cli_settings *set, struct race_report *r,
		    const struct race_end *end);

#endif
