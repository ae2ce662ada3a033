/* SPDX-License-Identifier: MIT */
/*
 * race_failure.h - a way in which the program failed in a sweep, and the stalls before it.
 *
 * A stall may make a program fail although no second access fell into it: an assertion elsewhere, a
 * crash later, threads that wait for each other. That is a find too if the program does not fail so
 * without stalls.
 */
#ifndef RACE_FAILURE_H
#define RACE_FAILURE_H

#include "report/race/race_report.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct race_failure {
	char outcome[40];	/* "killed by SIGABRT", "exit status 3", "a hang" */
	uint64_t runs;		/* that ended so, with stalls */
	uint64_t first_run;	/* the first of them, counted from 1 */
	uint64_t undisturbed;	/* runs without stalls that ended so */
	unsigned int stalls;	/* sides of `stall` that are filled: the last, the longest before */
	uint64_t before_ns[2];	/* from the beginning of each to the end of the run */
	uint64_t stalled_ns[2]; /* at most to the end of the run */
	char fingerprint[20];	/* empty: without a stall */
	struct race_view stall;
};

/* How a process ended, as waitpid() gives it. False: it succeeded. */
bool race_outcome(int status, bool is_hang, char *text, size_t n);
/* Fills the stalls from the last ones of this run, which ended at ended_ns (CLOCK_MONOTONIC). */
void race_failure_stalls(struct race_report *r, const struct race_region *region, uint64_t run,
			 uint64_t ended_ns, struct race_failure *out);
/* runs, undisturbed_runs: how many there were of each kind. */
void race_failure_text(struct race_report *r, const struct race_failure *failure, uint64_t runs,
		       uint64_t undisturbed_runs, FILE *f);
void race_failure_json(struct race_report *r, const struct race_failure *failure, uint64_t runs,
		       uint64_t undisturbed_runs, FILE *f);

#endif
