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

#define RACE_OUTCOMES 8u

struct race_failure {
	char outcome[40];     /* "killed by SIGABRT", "exit status 3", "a hang" */
	int status;	      /* of the first run that ended so, as waitpid() gives it; a hang: 0 */
	uint64_t runs;	      /* that ended so, with stalls */
	uint64_t first_run;   /* the first of them, counted from 1 */
	uint64_t undisturbed; /* runs without stalls that ended so */
	/* Later runs for the sites of `stall` alone, and those of them that ended so too. */
	uint64_t aimed_runs;
	uint64_t aimed;
	unsigned int stalls;	/* sides of `stall` that are filled: the last, the longest before */
	uint64_t before_ns[2];	/* from the beginning of each to the end of the run */
	uint64_t stalled_ns[2]; /* at most to the end of the run */
	char fingerprint[20];	/* of the outcome and the stalls; empty: without a stall */
	char known_as[20];	/* of the outcome and the program, for baselines */
	bool is_baselined;
	struct race_view stall;
};

/* How the runs of a sweep failed. */
struct race_failures {
	struct race_failure rows[RACE_OUTCOMES]; /* outcomes other than success */
	size_t count;
	uint64_t runs; /* with stalls */
	uint64_t undisturbed_runs;
};

/* The probability that chance alone gives so many failures to the runs with stalls. */
double race_failure_chance(const struct race_failures *all, const struct race_failure *failure);
/* It is so small that stalls provoke it. */
bool race_failure_is_provoked(const struct race_failures *all, const struct race_failure *failure);
/* The same, and the baseline does not have it. */
bool race_failure_is_new(const struct race_failures *all, const struct race_failure *failure);
/* program: the name that a baseline knows its failures by. */
void race_failure_name(struct race_failure *failure, const char *program);

/* How a process ended, as waitpid() gives it. False: it succeeded. */
bool race_outcome(int status, bool is_hang, char *text, size_t n);
/* Fills the stalls from the last ones of this run, which ended at ended_ns (CLOCK_MONOTONIC). */
void race_failure_stalls(struct race_report *r, const struct race_region *region, uint64_t run,
			 uint64_t ended_ns, struct race_failure *out);
struct baseline;
/* Which of them does it have? NULL: none. After the last run. */
void race_failures_settle(struct race_failures *all, struct baseline *b);
/* Adds those that are provoked; *added counts the new ones. 0 or -errno. */
int race_failures_add(const struct race_failures *all, struct baseline *b, size_t *added);
/* failure: one of all. */
void race_failure_text(struct race_report *r, const struct race_failures *all,
		       const struct race_failure *failure, FILE *f);
void race_failure_json(struct race_report *r, const struct race_failures *all,
		       const struct race_failure *failure, FILE *f);

/* A process died during the first of these stalls, or right after it. */
void race_failure_death_text(struct race_report *r, const struct race_failure *failure, FILE *f);
void race_failure_death_json(struct race_report *r, const struct race_failure *failure, FILE *f);

#endif
