/* SPDX-License-Identifier: MIT */
/* heap_settings.h - the options of `trapline heap`. */
#ifndef HEAP_SETTINGS_H
#define HEAP_SETTINGS_H

#include "cli/opts.h"
#include "cli/search/known_errors.h"
#include "report/heap/heap_growth.h"

#include <stdint.h>
#include <sys/types.h>

struct heap_cli_settings {
	double overhead; /* percent */
	uint64_t first;
	uint64_t seed; /* 0: one is drawn */
	uint64_t align;
	uint64_t error_exitcode;
	struct known_settings known;
	const char *output;
	int json;
	int stop;
	int growth;
	const char *growth_format; /* NULL: text */
	enum heap_growth_format format;
	int verbose;
	pid_t pid; /* 0: a command */
	uint64_t for_ns;
	char **command;
	const char *program; /* without folders */
	uint64_t budget_ppm;
};

/* 0; an exit status with a line printed; or -1: --help was given. */
int heap_settings_read(struct heap_cli_settings *set, int argc, char **argv);

#endif
