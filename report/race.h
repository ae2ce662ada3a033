/* SPDX-License-Identifier: MIT */
/*
 * race.h - races explained: from the records of a run to what is printed.
 *
 * Records of one pair of source lines are one race, whose best record is shown. Symbols come from
 * files, so the processes may have ended.
 */
#ifndef REPORT_RACE_H
#define REPORT_RACE_H

#include "record/race.h"
#include "report/symbols.h"

#include <stdbool.h>
#include <stdio.h>

/* A: certainly a race. B: a race, unless both sides are meant to be atomic. C: likely meant. */
enum race_grade { RACE_GRADE_A, RACE_GRADE_B, RACE_GRADE_C };

/* Of one side, as it is told: of a memory function's caller rather than of itself. */
struct race_access_place {
	uint64_t at;	  /* place as in the record; 0: unknown */
	uint32_t frame;	  /* which of the record's frames it is */
	bool after;	  /* it is that of the next instruction */
	struct place place;
	char function[256];
	const char *via; /* the memory function, or NULL */
};

struct race_view {
	struct race_record record;
	struct race_access_place first;
	struct race_access_place second; /* place.module NULL: unknown origin */
	enum race_grade grade;
	const char *why; /* the grade, in a few words */
	char variable[192]; /* empty: unknown */
	char fingerprint[20];
	char key[800];
	uint32_t pairs[64];
	uint32_t pair_count;
	uint64_t unpaired; /* records without a row of pairs */
	bool is_told;
	uint64_t seen_ns; /* CLOCK_MONOTONIC of its first record */
};

struct race_report;

int race_report_open(const struct race_region *region, struct race_report **out);
void race_report_close(struct race_report *r);

/* Take in one record. *out is the race it belongs to, valid until the next call. 0 or -errno. */
int race_report_add(struct race_report *r, const struct race_record *record,
		    struct race_view **out);
size_t race_report_count(const struct race_report *r);
struct race_view *race_report_view(struct race_report *r, size_t i);
/*
 * Grades by what the run has learned since a race was added: its instructions or its variable may
 * have met locked instructions meanwhile. Call before printing.
 */
void race_report_settle(struct race_report *r);
/* How often a race was caught. */
uint64_t race_report_times(const struct race_report *r, const struct race_view *v);

/* "read", "write", "read-modify-write" or "unknown". */
const char *race_access_name(unsigned int access);
/* "write-write", "read-write" (in whatever order) or "unknown-origin". */
const char *race_kind(const struct race_view *v);

/* race_text.c, race_json.c */
void race_print_text(struct race_report *r, const struct race_view *v, FILE *f);
void race_print_json(struct race_report *r, const struct race_view *v, FILE *f);

/* Sites of a sweep: accesses in the code; those that were reached beside another thread. */
struct race_coverage {
	uint64_t total;
	uint64_t reached; /* and not private or constant whenever they were tried */
	uint64_t held;	  /* of those, at least as often as was asked */
	uint64_t stalls;
};
/* times: how often is held. */
void race_coverage(const struct race_region *region, uint64_t times,
		   struct race_coverage *out);

/* Sums over all processes. */
struct race_totals {
	uint64_t processes;
	uint64_t failed; /* in which the detector could not start */
	int32_t error;	 /* of one of them */
	uint32_t step;
	uint32_t watches;
	uint32_t most_threads;
	uint64_t counters[RACE_COUNTERS];
	uint64_t stalled_ns;
	uint64_t spent_ns;
	uint64_t run_ns;
	uint64_t sites;
	uint64_t torn;
	uint64_t runs;
	uint64_t wall_ns;
	uint64_t first_race_ns; /* after the start; 0: none */
	uint64_t lost_processes;
	bool is_sweep;
	uint64_t sites_lost;
	uint64_t sites_refused; /* processes in which sites could not be trapped */
	struct race_coverage coverage; /* held once and more */
};
void race_totals(const struct race_region *region, struct race_totals *out);
/* grade_max: races of higher grades are counted apart as not shown. */
void race_summary_text(struct race_report *r, const struct race_totals *t,
		       enum race_grade grade_max, FILE *f);
void race_summary_json(struct race_report *r, const struct race_totals *t,
		       enum race_grade grade_max, FILE *f);
extern const char *const race_counter_names[RACE_COUNTERS];

/* Inside: race.c to race_grade.c and the printers. */
void race_grade(struct race_report *r, struct race_view *v);
/* The symbols of the file of a place, and the address in them; NULL: no file, or not readable. */
struct symbols *race_symbols(struct race_report *r, uint64_t at, uint64_t *address);
/* A frame of a side, and whether it is a return address. */
uint64_t race_frame(const struct race_side *side, uint32_t i, bool *after);
void race_place(struct race_report *r, uint64_t at, bool after, struct place *out);

#endif
