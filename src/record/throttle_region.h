/* SPDX-License-Identifier: MIT */
/*
 * throttle_region.h - what `trapline throttle` and the processes it keeps to a budget share.
 *
 * All processes of a command draw from the same accounts, so these lie here.
 */
#ifndef RECORD_THROTTLE_REGION_H
#define RECORD_THROTTLE_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "record/share_head.h"

#define THROTTLE_MAGIC 0x656c74746f726874u
#define THROTTLE_BUDGETS 4

struct throttle_account {
	uint64_t origin; /* due = origin + drawn * cost; 0: not opened yet */
	uint64_t drawn;	 /* by all processes, as far as they have looked */
};

/* What is asked for. */
struct throttle_limit {
	uint32_t counter; /* enum trapline_counter */
	uint32_t flags;	  /* TRAPLINE_THROTTLE_* */
	uint64_t per_second;
};

/* What became of it. */
struct throttle_budget {
	struct throttle_account account;
	uint64_t checks;
	uint64_t sleeps;
	uint64_t slept_ns;
	uint64_t throttled;
};

struct throttle_region {
	/* Only trapline writes this, before the run: see record/share_head.h. */
	union {
		struct {
			struct share_head share;
			uint32_t count;
			/* Only threads of this name; empty: all. "name*": beginning so. */
			char thread[16];
			struct throttle_limit limits[THROTTLE_BUDGETS];
		};
		uint8_t head[SHARE_HEAD_BYTES];
	};
	/* And all processes this. */
	struct run_words run; /* of -p */
	uint32_t stop;
	int32_t error; /* -errno of the last process in which it could not begin */
	struct throttle_budget budgets[THROTTLE_BUDGETS];
	uint64_t processes; /* that began */
	uint64_t failures;  /* processes in which it could not begin */
	char why[160];
};

_Static_assert(offsetof(struct throttle_region, run) == SHARE_HEAD_BYTES,
	       "the limits have room in the head");

#endif
