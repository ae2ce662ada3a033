/* SPDX-License-Identifier: MIT */
/*
 * race_hang.h - does a run of a sweep still get anywhere?
 *
 * A stall can leave a program in a state that it never leaves: a lost wake-up, a lock that is not
 * given back. Such a run would eat the time of hundreds. A run is hung if all its threads wait for
 * each other; or if it is far longer than those before it, and no site was reached since.
 */
#ifndef RACE_HANG_H
#define RACE_HANG_H

#include "record/race_region.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum race_hang_why {
	RACE_HANG_NOT,
	RACE_HANG_WAITS,  /* all threads wait for each other */
	RACE_HANG_SLEEPS, /* no CPU time, no site */
	RACE_HANG_SPINS,  /* CPU time, but no site */
};

struct race_hang {
	uint64_t longest_ns; /* of the runs that ended by themselves */
	uint64_t runs;	     /* those */
	uint64_t cuts;	     /* in a row: the limits double with each */
	/* the state of this run */
	uint64_t began_ns;
	uint64_t looked_ns;
	uint64_t cpu_ns; /* as it was then */
	uint64_t sites;	 /* hits of sites, as they were then */
	uint64_t cpu_since_ns;
	uint64_t sites_since_ns;
	uint64_t waits_since_ns; /* 0: a thread does something else */
};

void race_hang_begin(struct race_hang *h, uint64_t now_ns);
/* The process pid, which trapline started, and those that it started. */
enum race_hang_why race_hang_look(struct race_hang *h, const struct race_region *region, pid_t pid,
				  uint64_t now_ns);
/* The run has ended: by itself, or since it was cut. */
void race_hang_ran(struct race_hang *h, uint64_t took_ns, bool is_cut);
/* SIGKILL to a process that trapline started without a search, and to those that it started. */
void race_hang_kill_tree(pid_t pid);
const char *race_hang_text(enum race_hang_why why);

#endif
