/* SPDX-License-Identifier: MIT */
/* break_arm.h - the events of the sites. */
#ifndef CLI_BREAK_BREAK_ARM_H
#define CLI_BREAK_BREAK_ARM_H

#include "cli/observe/observe.h"
#include "report/code/code_sites.h"

#define BREAK_REGISTERS_MAX 4			   /* hardware breakpoints */
#define BREAK_EVENTS_MAX (3 + BREAK_REGISTERS_MAX) /* break_go.h has one */

/* The events of a run. */
struct break_armed {
	struct trapline_event *event[BREAK_EVENTS_MAX];
	size_t count;
	struct run_calls_end sites; /* how many of each kind: only these members are set */
	char refused_names[200];
	bool *left_out;	 /* by index of sites: it has no breakpoint; NULL: all have */
	bool *no_return; /* by index of sites, with --ret: no return of it is reported */
};

/* 0 or an exit status, line printed. */
int break_arm(const struct observe *o, const struct code_sites *sites,
	      const struct trapline_event_opts *opts, struct break_armed *armed);

#endif
