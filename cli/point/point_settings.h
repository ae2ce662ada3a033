/* SPDX-License-Identifier: MIT */
/* point_settings.h - what the options of `trapline point` state. */
#ifndef CLI_POINT_POINT_SETTINGS_H
#define CLI_POINT_POINT_SETTINGS_H

#include "cli/opts.h"
#include "cli/point/point.h"

struct point_settings {
	const char *action;
	struct point point;
	int args;
	int ret;
	int stack;
	int json;
	struct opt_list redact;
	uint64_t expire_ns; /* 0: never */
	const char *rate;
	const char *to;
	const char *state;
	const char *output;
	const char *file_size;
	uint64_t keep;
};

#endif
