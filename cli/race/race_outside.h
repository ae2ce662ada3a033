/* SPDX-License-Identifier: MIT */
/* race_outside.h - `trapline race --outside`: a search with nothing inside the process. */
#ifndef CLI_RACE_RACE_OUTSIDE_H
#define CLI_RACE_RACE_OUTSIDE_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct outside;
struct race_cli_settings;
struct race_process;
struct race_region;
struct race_run;
struct symbols;

struct race_outside {
	struct outside *engine; /* NULL: the search is inside */
	struct symbols *symbols;
	struct race_region *region;
	struct race_process *row;
	pid_t pid;
};

/* Each returns 0 or an exit status, line printed. */
int race_outside_check(const struct race_cli_settings *set);
int race_outside_attach(const struct race_cli_settings *set, struct race_run *run);
int race_outside_command(const struct race_cli_settings *set, struct race_run *run);
/* What was caught becomes records of the region. */
void race_outside_look(struct race_outside *x);
/* No probe is left, and all is counted. */
void race_outside_end(struct race_outside *x);
/* The same of a process that continues, with a line. */
void race_outside_detach(struct race_run *run);
/* How far the search came, after the summary. */
void race_outside_text(struct race_outside *x, int is_verbose, FILE *f);
void race_outside_close(struct race_outside *x);

#endif
