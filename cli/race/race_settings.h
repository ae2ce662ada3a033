/* SPDX-License-Identifier: MIT */
/* race_settings.h - the options of `trapline race`. */
#ifndef CLI_RACE_RACE_SETTINGS_H
#define CLI_RACE_RACE_SETTINGS_H

#include "cli/opts.h"
#include "cli/search/known_errors.h"
#include "report/race/race_report.h"

#include <stdbool.h>
#include <sys/types.h>

struct race_cli_settings {
	double overhead; /* percent; 0: the default */
	const char *grade;
	const char *output;
	uint64_t frames; /* of each stack, in text; 0: all */
	int each;	 /* races of one variable are not grouped */
	uint64_t error_exitcode;
	uint64_t until_covered;
	int json;
	const char *as; /* text, json or sarif */
	int is_sarif;	/* the report itself is */
	struct known_settings known;
	int gen_suppressions;
	int sweep;
	int heap;
	int inside;	    /* asked for: the detector in the process, */
	int outside;	    /* or nothing in it */
	const char *replay; /* a fingerprint */
	const char *input;  /* a file of JSON lines that has that race */
	int verbose;
	struct opt_list vary;
	pid_t pid;	 /* a running process; 0: the command */
	uint64_t for_ns; /* 0: not given */
	char **command;
	char program[256]; /* what is searched, for the reader */
	uint64_t budget_ppm;
	uint64_t delay_ns; /* 0: adaptive */
	uint64_t time_ns;  /* after which a sweep or a replay starts no new run */
	enum race_grade grade_max;
};

/* Options into settings. 0, -1 after --help, or an exit status, line printed. */
int race_settings_read(struct race_cli_settings *set, int argc, char **argv);

#endif
