/* SPDX-License-Identifier: MIT */
/*
 * groups.h - hits by one thing of choice: their caller, thread, stack or value.
 *
 * The table of --by, in text and JSON, live and from a recording.
 */
#ifndef REPORT_RUN_GROUPS_H
#define REPORT_RUN_GROUPS_H

#include "report/run/run_call.h"

#define RUN_GROUPS_BY "caller|thread|stack|value"
#define RUN_GROUPS_WORDS "caller, thread, stack or value"

/* One of these words. What is not, is an expression: run_call.key has its value. */
bool run_groups_is_word(const char *by);

struct run_groups {
	const char *by;	   /* a word of RUN_GROUPS_BY, or an expression */
	size_t frames_max; /* of each stack; 0: all */
	void *groups;	   /* tsearch() tree */
	size_t count;
	size_t bytes; /* of the keys */
	uint64_t hits;
	bool has_durations;
	/* for values that are numbers: */
	uint64_t numbers;
	double least;
	double most;
	double sum;
	uint64_t small;		     /* between -1 and 1 */
	uint64_t below[RUN_BUCKETS]; /* n: -2^n and less; the last takes the rest */
	uint64_t above[RUN_BUCKETS]; /* n: 2^n and more */
};

/* calls NULL: hits are accesses. */
void run_groups_add(struct run_groups *g, const struct run_calls *calls, const struct run_hit *hit);
void run_groups_text(struct run_text *o, const struct run_groups *g);
json_t *run_groups_json(const struct run_groups *g);
void run_groups_free(struct run_groups *g);

#endif
