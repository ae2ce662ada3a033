/* SPDX-License-Identifier: MIT */
/* race_totals.h - what all processes of a search counted, and the ways to print it. */
#ifndef RACE_TOTALS_H
#define RACE_TOTALS_H

#include "record/race_region.h"
#include "report/finding/sarif.h"
#include "report/race/race_report.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Sites of a sweep: accesses in the code; those that were reached beside another thread. */
struct race_coverage {
	uint64_t total;
	uint64_t reached; /* and not private or constant whenever they were tried */
	uint64_t held;	  /* of those, at least as often as was asked */
	uint64_t stalls;
};
/* times: a site counts as covered after so many stalls. */
void race_coverage(const struct race_region *region, uint64_t times, struct race_coverage *out);

/* Sums over all processes. */
struct race_totals {
	uint64_t processes;
	uint64_t failed; /* in which the detector could not start */
	int32_t error;	 /* of one of them */
	uint32_t step;
	uint32_t watches;
	uint64_t on_cpus;  /* processes that were watched by events of the CPUs */
	bool cpus_changed; /* and no thread was stalled after that */
	uint32_t most_threads;
	uint64_t counters[RACE_COUNTERS];
	uint64_t stalled_ns;
	uint64_t spent_ns;
	uint64_t run_ns;
	uint64_t sites;
	uint64_t torn;
	uint64_t unlisted; /* records: too many to be read in time or to be kept */
	uint64_t runs;
	uint64_t runs_cut;   /* of a sweep: ended by a signal of trapline */
	uint64_t runs_hung;  /* of those, considered hung */
	uint64_t failures;   /* of a sweep: ways to fail that no run without stalls had */
	const char *stopped; /* why no thread ran, where that is known; NULL */
	uint64_t wall_ns;
	uint64_t first_race_ns; /* after the start; 0: none */
	uint64_t lost_processes;
	bool is_sweep;
	bool is_outside;
	bool is_by_sites; /* no debug register works */
	bool is_replay;	  /* only the two sites of one race */
	bool is_varied;	  /* runs differed in their environment */
	bool has_openmp;
	bool has_jvm; /* its code is made at run time, and a run of it takes long */
	/*
	 * By race_count_sites(), not in a sweep: accesses that could be stalled,
	 * approximate.
	 */
	uint64_t sites_there;
	uint64_t objects;
	uint64_t objects_unread; /* gone, or without code that can be read */
	uint64_t sites_lost;
	uint64_t sites_unproven;       /* perhaps: in bytes that are not known to be code */
	uint64_t sites_refused;	       /* processes in which sites could not be trapped */
	struct race_coverage coverage; /* of trapped sites, with at least one stall each */
};
/* The stalls of the processes that have a row now. Cheap: for a line of progress. */
uint64_t race_live_stalls(const struct race_region *region);
/* Adds to what is in out. */
void race_totals(const struct race_region *region, struct race_totals *out);
/* race_image.c: after race_totals(); reads the objects' files. */
void race_count_sites(const struct race_region *region, pid_t root, struct race_totals *out);
/*
 * Adds the processes that are dead to out and gives their rows of the table back, all but the first
 * row. Returns how many.
 */
uint64_t race_give_back_rows(struct race_region *region, struct race_totals *out);
extern const char *const race_counter_names[RACE_COUNTERS];

/* race_summary.c, race_json.c. grade_max: races of higher grades are counted as not shown. */
struct race_summary_options {
	enum race_grade grade_max;
	bool is_verbose;
	char *const *command; /* as given, for the advice to repeat it; NULL: a process */
	double overhead;      /* percent; 0: the default */
	bool is_endless; /* the command did not end by itself, so that a sweep cannot repeat it */
};
void race_summary_text(struct race_report *r, const struct race_totals *t,
		       const struct race_summary_options *how, FILE *f);
void race_summary_json(struct race_report *r, const struct race_totals *t,
		       enum race_grade grade_max, FILE *f);
/* race_text_policy.c: which suppressions were used and which not; what of the baseline is gone. */
void race_policy_text(struct race_report *r, enum race_grade grade_max, FILE *f);

/*
 * race_sarif.c: all races down to the grade and all failures, suppressed and known ones marked as
 * such. 0 or -errno.
 */
struct race_sarif {
	const struct race_totals *totals;
	const struct race_failures *failures;
	enum race_grade grade_max;
};
int race_print_sarif(struct race_report *r, const struct race_sarif *what,
		     const struct sarif_run *run, FILE *f);

#endif
