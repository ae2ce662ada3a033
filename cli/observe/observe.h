/* SPDX-License-Identifier: MIT */
/*
 * observe.h - one run of watch, break or record, from the look-up to the summary.
 *
 * What is observed and what a hit is made of differ: struct observe_kind has a function for each
 * step that does.
 */
#ifndef CLI_OBSERVE_OBSERVE_H
#define CLI_OBSERVE_OBSERVE_H

#include "cli/act/then.h"
#include "cli/launch/thread_names.h"
#include "cli/observe/last.h"
#include "cli/observe/observe_settings.h"
#include "cli/observe/pace.h"
#include "cli/observe/run_cost.h"
#include "cli/observe/session.h"
#include "cli/observe/targets.h"
#include "cli/output.h"
#include "record/probe_region.h"
#include "report/run/groups.h"

struct observe_kind;

/* What a terminal gets. */
struct observe_lines {
	uint64_t most; /* in a window of time; 0: no limit */
	uint64_t window;
	uint64_t count; /* in this window */
	uint64_t left_out;
};

/* The first member of the struct of a kind, whose functions get it. */
struct observe {
	const struct observe_kind *kind;
	struct observe_settings set;
	struct session session;
	struct targets targets;
	struct symbols *symbols;
	struct trapline_condition *condition;
	struct trapline *target;
	const char *title;	/* of what is observed, for errors */
	uint32_t records_bytes; /* of the buffer of records; 0: the default */
	/* Set by arm: */
	struct trapline_event *const *events; /* those that a pause disables */
	size_t event_count;
	struct probe_counts *counts; /* of probes; NULL: there are none */
	struct output to;
	struct run_info info;
	struct tally tally;
	struct run_groups groups; /* of --by */
	/* A run of break has these; NULL: hits are accesses. */
	struct run_calls *calls;
	struct run_calls_end *calls_end;
	struct pace pace;
	struct run_cost cost;
	struct then then;
	struct last last; /* --last and --until-hit */
	struct thread_names names;
	struct observe_lines lines;
	uint64_t hits;	 /* that were printed */
	uint64_t beyond; /* records that came after the limit was reached */
};

/* Functions that return int give 0 or an exit status, line printed. */
struct observe_kind {
	const char *doing; /* as in "cannot watch counter" */
	trapline_callback on_hit;
	/*
	 * Whether a program has what is observed, without a message; NULL: --follow does not
	 * search.
	 */
	bool (*has)(const struct observe_settings *set, struct symbols *s);
	/*
	 * Finds what is observed and makes the condition; with --list prints what it found instead.
	 */
	int (*find)(struct observe *o);
	/*
	 * Sets o->title, o->info except for the process and the time, and the address that the
	 * session probes.
	 */
	int (*describe)(struct observe *o);
	int (*arm)(struct observe *o, struct trapline_event_opts *opts);
	void (*print_start)(struct observe *o);
	/* Adds the counts of the events, which are open for the last time. */
	void (*sum_up)(struct observe *o, struct run_end *end);
	void (*release)(struct observe *o);
};

#define OBSERVE_AGAIN (-1) /* the process of --name has ended before it could be observed */
/* The whole run. An exit status, or OBSERVE_AGAIN. */
int observe_run(struct observe *o, const struct observe_kind *kind,
		const struct observe_settings *set);

/* True: no hit is wanted any more, and this record is counted as one of them. */
bool observe_has_enough(struct observe *o);
/* How many hits an event may have: with an exact --then one at a time. */
uint64_t observe_limit(const struct observe *o);
/* What a record states about every kind of hit; the rest is 0. */
struct run_hit observe_hit_of(const struct observe *o, const struct trapline_hit *hit);
/* To the text, the JSON lines, the recording and the sums. */
void observe_print(struct observe *o, const struct run_hit *hit);

#endif
