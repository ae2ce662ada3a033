/* SPDX-License-Identifier: MIT */
/*
 * run_watch.h - the sums of a watch of several expressions or of objects, beside struct run_end.
 *
 * Live output and `trapline report FILE` print these same structures.
 */
#ifndef RUN_WATCH_H
#define RUN_WATCH_H

#include "report/run/run.h"

/* Objects that were found at run time. */
struct run_objects {
	const char *at;	      /* as the user named the function and the moment */
	const char *until;    /* NULL: not given */
	const char *function; /* of at */
	bool is_return;
	uint64_t calls; /* of it */
	uint64_t registers;
	uint64_t seen;
	uint64_t watched; /* of these, had a register at some time */
	uint64_t ended;	  /* by --until, or by a new object at the same address */
	uint64_t unmapped;
	uint64_t alive;	    /* when the run ended */
	uint64_t too_late;  /* ended before their register was armed */
	uint64_t no_place;  /* a pointer of the path was null or unreadable, or alignment */
	uint64_t nothing;   /* null instead of an object */
	uint64_t untracked; /* too many at a time */
	uint64_t life_ns;
	uint64_t watched_ns;
	uint64_t delays; /* of which the next two are made */
	uint64_t delay_max_ns;
	uint64_t delay_median_ns;
	uint64_t after_end; /* hits of memory whose object had ended */
	uint64_t calls_lost;
	uint64_t stalled;    /* calls whose thread was stalled until a register was armed */
	uint64_t stalled_ns; /* all of them together */
	uint64_t doubtful;   /* hits of frames that may have been left without a return */
	bool is_frame;	     /* the objects are frames of a function */
	uint64_t in_time;    /* objects that were armed before their thread continued */
};

/* One of several expressions. */
struct run_multiplex_expr {
	const char *name;
	uint64_t address;
	uint64_t len;
	uint64_t chunks;
	uint64_t hits;
	uint64_t watched_ns; /* the mean of its chunks */
};

#define RUN_MULTIPLEX_EXPRS_MAX 4096

/* Several expressions, multiplexed when they have more chunks than there are registers. */
struct run_multiplex {
	struct run_multiplex_expr *expr;
	size_t expr_count; /* RUN_MULTIPLEX_EXPRS_MAX at most */
	uint64_t chunks;
	uint64_t registers;
	uint64_t slices;
	uint64_t slice_ns; /* of one slice */
	uint64_t switching_ns;
	uint64_t failures; /* of moves: the chunk was not watched in that slice */
	uint64_t unplaced; /* hits outside of all expressions: they are not printed */
	uint64_t duration_ns;
};

/* Prints those of the two that the run has. */
void run_text_watch_end(FILE *f, const struct run_end *end);
void run_jsonl_watch_end(json_t *to, const struct run_end *end);

#endif
