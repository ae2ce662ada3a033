/* SPDX-License-Identifier: MIT */
/* flow_settings.h - the options of `trapline flow`. */
#ifndef FLOW_SETTINGS_H
#define FLOW_SETTINGS_H

#include "cli/opts.h"
#include "cli/search/known_errors.h"
#include "record/flow_region.h"

#include <stdint.h>
#include <sys/types.h>

struct flow_cli_settings {
	struct opt_list from;
	struct opt_list to;
	const char *match;
	double overhead; /* percent */
	uint64_t window_ns;
	uint64_t for_ns;
	uint64_t limit;
	pid_t pid;
	const char *output;
	const char *as;
	int tables;
	struct known_settings known;
	uint64_t error_exitcode;
	int json;
	int verbose;
	char **command;
	const char *program; /* for messages */
	/* What the process gets; locations are without addresses. */
	struct flow_settings flow;
};

/* 0; an exit status with a line printed; or -1: --help was given. */
int flow_settings_read(struct flow_cli_settings *set, int argc, char **argv);

#endif
