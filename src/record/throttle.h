/* SPDX-License-Identifier: MIT */
/*
 * throttle.h - what `trapline throttle` and the processes it keeps to a budget share.
 *
 * All processes of a command draw from the same accounts, so these lie here.
 */
#ifndef RECORD_THROTTLE_H
#define RECORD_THROTTLE_H

#include <stdint.h>

#define THROTTLE_MAGIC 0x656c74746f726874u
#define THROTTLE_BUDGETS 4

struct throttle_account {
	uint64_t origin; /* due = origin + drawn * price; 0: not opened yet */
	uint64_t drawn;	 /* by all processes, as far as they have looked */
};

struct throttle_budget {
	uint32_t counter; /* enum trapline_counter */
	uint32_t flags;	  /* TRAPLINE_THROTTLE_* */
	uint64_t per_second;
	struct throttle_account account;
	uint64_t checks;
	uint64_t sleeps;
	uint64_t slept_ns;
	uint64_t throttled;
};

struct throttle_region {
	uint64_t magic;
	uint64_t bytes; /* sizeof, for the reader to compare */
	uint32_t stop;
	int32_t observer; /* the command: its end is the end of the budgets */
	uint32_t count;
	char thread[16]; /* only threads of this name; empty: all. "name*": beginning so */
	struct throttle_budget budgets[THROTTLE_BUDGETS];
	uint64_t processes; /* that began */
	uint64_t failures;  /* processes in which it could not begin */
	int32_t error;	    /* -errno of the last of these */
	char why[160];
};

#endif
