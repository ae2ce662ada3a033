/* SPDX-License-Identifier: MIT */
/* race.h - what the files of `trapline race` share. */
#ifndef CLI_RACE_H
#define CLI_RACE_H

#include "report/race.h"

#include <sys/types.h>

struct race_cli_settings {
	const char *overhead; /* as given: 2% */
	const char *grade;
	const char *delay;
	const char *output;
	uint64_t error_exitcode;
	const char *time; /* as given */
	uint64_t until_covered;
	int json;
	int sweep;
	char **command;
	uint64_t budget_ppm;
	uint64_t delay_ns;
	uint64_t time_ns;
	enum race_grade grade_max;
};

/* race_start.c: the shared region, and a command with the agent in it. */
struct race_run {
	struct race_region *region;
	int region_fd;
	pid_t pid;
};

/* Each returns 0 or an exit status, line printed. */
int race_region_open(const struct race_cli_settings *set, struct race_run *run);
void race_region_close(struct race_run *run);
int race_command_start(const struct race_cli_settings *set, struct race_run *run);

#endif
