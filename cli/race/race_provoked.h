/* SPDX-License-Identifier: MIT */
/*
 * race_provoked.h - how the runs of a sweep ended, beside runs without stalls.
 *
 * Runs without the agent are drawn in turn with the others. A failure is a find if it is far more
 * frequent with stalls than without.
 */
#ifndef RACE_PROVOKED_H
#define RACE_PROVOKED_H

#include "cli/race/race_focus.h"
#include "cli/race/race_undisturbed.h"
#include "report/race/race_failure.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct race_provoked {
	struct race_failures all;
	const char *program;	  /* its name */
	uint64_t uncounted;	  /* runs whose outcome had no room */
	struct race_failure *aim; /* the run in progress is for its sites; NULL: for none */
	char last[40];		  /* outcome of the last run; empty: success */
};

struct race_run_end {
	uint64_t run; /* as the region counts */
	int status;   /* as waitpid() gives it */
	bool is_hang;
	uint64_t ended_ns;
	const char *varied; /* as in struct race_view */
};

/* Counts a run of the sweep. */
void race_provoked_note(struct race_provoked *p, struct race_report *r,
			const struct race_region *region, const struct race_run_end *end);
/*
 * Is a run without stalls due, beside runs with stalls that took stalled_ns? While a failure is in
 * doubt there are as many of them, else few.
 */
bool race_provoked_is_due(struct race_provoked *p, const struct race_undisturbed *u,
			  uint64_t stalled_ns);
/* Counts a run without stalls. */
void race_provoked_undisturbed(struct race_provoked *p, const struct race_undisturbed_end *end);
/* True: a failure is in doubt, and the next run is for the sites that were stalled before it. */
bool race_provoked_aim(struct race_provoked *p, struct race_focus *focus,
		       struct race_region *region);
/* Outcomes that stalls provoke, and that are new. */
size_t race_provoked_count(const struct race_provoked *p);
/*
 * status: of the first run that failed. If a failure is in the baseline, or becomes part of it,
 * that of the first run that failed in another way; 0: no run did.
 */
int race_provoked_status(const struct race_provoked *p, int status, bool is_written);
/* A process that a signal ended. */
struct race_death {
	pid_t pid;
	int signal;
	uint64_t time_ns; /* CLOCK_MONOTONIC */
};
/* Prints the last stall of the process, if it died during it or right after it. */
void race_provoked_death(struct race_report *r, const struct race_region *region,
			 const struct race_death *death, bool is_json, FILE *f);
void race_provoked_text(const struct race_provoked *p, struct race_report *r, FILE *f);
void race_provoked_json(const struct race_provoked *p, struct race_report *r, FILE *f);

#endif
