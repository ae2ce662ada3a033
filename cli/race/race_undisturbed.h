/* SPDX-License-Identifier: MIT */
/*
 * race_undisturbed.h - runs of a sweep without the agent: how long the program takes by itself, and
 * how it ends then.
 */
#ifndef RACE_UNDISTURBED_H
#define RACE_UNDISTURBED_H

#include "record/race_region.h"

#include <stdbool.h>
#include <stdint.h>

struct race_undisturbed {
	uint64_t ended;	     /* runs that ended by themselves */
	uint64_t cut;	     /* runs that did not within their limit */
	uint64_t longest_ns; /* of those that ended; 0: it is unknown how long the program takes */
	uint64_t total_ns;   /* of all */
	bool is_over;	     /* no further run: one could not be started */
	bool is_asked;	     /* no further run: the user wants to end */
};

struct race_undisturbed_end {
	int status;   /* as waitpid() gives it */
	bool is_hang; /* its threads waited for each other, or it ran far longer than others */
	bool is_cut;  /* it was ended at its limit, and did not fail */
};

/* Runs the command, at most so long. False: no run, or one that the user ended. */
bool race_undisturbed_run(struct race_undisturbed *u, const struct race_region *region,
			  char *const *command, uint64_t limit_ns,
			  struct race_undisturbed_end *end);

#endif
