/* SPDX-License-Identifier: MIT */
/*
 * race_vary.h - `trapline race --vary`: runs of a sweep that differ in the environment.
 *
 * How a loop is shared out depends on the number of threads and the like, and so do the races that
 * there are. What OMP_NUM_THREADS=4 never shows is plain with 36.
 */
#ifndef RACE_VARY_H
#define RACE_VARY_H

#include "cli/opts.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define RACE_VALUES_MAX 64

struct race_variable {
	char *text; /* NAME, and behind it the values, each with its 0 */
	const char *values[RACE_VALUES_MAX];
	uint64_t runs[RACE_VALUES_MAX];
	uint64_t took_ns[RACE_VALUES_MAX];
	size_t count;
	size_t at; /* of the run in progress */
};

struct race_vary {
	struct race_variable variables[OPT_LIST_MAX];
	size_t count;
	char now[256]; /* of the run in progress: NAME=VALUE, by newlines; empty: none varies */
};

/* "NAME=VALUE,VALUE,..." each. 0 or an exit status, line printed. */
int race_vary_open(const struct opt_list *list, struct race_vary *vary);
void race_vary_close(struct race_vary *vary);
/* As a report has it: the same for all runs, unless others were asked for. 0 or an exit status. */
int race_vary_like(struct race_vary *vary, const char *now);
/*
 * Before a run: sets the environment, which the program inherits. Each value gets the
 * same time.
 */
void race_vary_choose(struct race_vary *vary);
/* Each value had a run. */
bool race_vary_all_ran(const struct race_vary *vary);
/* A run took so long. */
void race_vary_ran(struct race_vary *vary, uint64_t took_ns);
void race_vary_text(const struct race_vary *vary, FILE *f);
void race_vary_json(const struct race_vary *vary, FILE *f);

#endif
