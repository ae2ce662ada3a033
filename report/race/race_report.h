/* SPDX-License-Identifier: MIT */
/*
 * race_report.h - races explained: from the records of a run to what is printed.
 *
 * Records of one pair of source lines are one race, or of one pair of functions if there
 * are no lines. The best record of a race is shown. Symbols come from files, so the
 * processes may have ended.
 */
#ifndef RACE_REPORT_H
#define RACE_REPORT_H

#include "record/race_judge.h"
#include "record/race_region.h"
#include "report/dwarf/symbols.h"
#include "report/run/run.h"
#include "report/suppress/suppress.h"

#include <stdbool.h>
#include <stdio.h>

/* One side as it is reported: a memory function is reported at its caller. */
struct race_access_place {
	uint64_t at;	/* location as in the record; 0: unknown */
	uint32_t frame; /* which of the record's frames it is */
	bool after;	/* it is that of the next instruction */
	struct place place;
	char function[256]; /* that has the code: what the fingerprint and a replay go by */
	char head[256];	    /* what headlines name: headline.h has the rule */
	const char *via;    /* the memory function, or NULL */
};

struct race_view {
	struct race_record record;
	struct race_access_place first;
	struct race_access_place second; /* module NULL: unknown origin */
	enum race_grade grade;
	const char *why;    /* the grade, in a few words */
	char variable[192]; /* empty: unknown */
	char fingerprint[20];
	uint32_t pairs[64];
	uint32_t pair_count;
	uint64_t unpaired; /* records without a row of pairs */
	bool is_told;
	const struct race_view *head; /* counted at which race: see race_group.h; NULL: itself */
	bool is_baselined;
	/* by which; NULL: one of its stacks at least is not */
	const struct suppression *suppressed;
	uint64_t seen_ns; /* CLOCK_MONOTONIC of its first record */
	bool is_new;	  /* the last record of it was the first */
	char varied[256]; /* NAME=VALUE, by newlines: what that run alone had; empty: nothing */
};

struct race_report;

int race_report_open(const struct race_region *region, struct race_report **out);
/*
 * Files are named as this process has them, which has another tree of mounts; 0: as this one does.
 */
void race_report_set_root(struct race_report *r, pid_t root);
/* Files of the process that are open already, which outlive the report; NULL: none. */
struct kept_files;
void race_report_set_kept(struct race_report *r, const struct kept_files *kept);
void race_report_close(struct race_report *r);

struct baseline;
/* What the user asked for. The members that are pointers may be NULL. */
struct race_policy {
	struct suppressions *suppressions;
	struct baseline *baseline; /* races that were known before */
	bool gives_suppressions;   /* one with each race */
	size_t frames_max;	   /* that the text shows of each stack; 0: all */
	bool is_each;		   /* races of one variable are not grouped */
};
/* Give before the first record; what is in it must outlive the report. */
void race_report_set_policy(struct race_report *r, const struct race_policy *policy);
const struct race_policy *race_report_policy(const struct race_report *r);

/* The verdict on a race: only races that are shown are printed, and fail a run. */
enum race_verdict {
	RACE_SHOWN,
	RACE_BELOW_GRADE,
	RACE_SUPPRESSED,
	RACE_BASELINED,
	RACE_VERDICTS,
};
enum race_verdict race_verdict(const struct race_view *v, enum race_grade grade_max);
/* Races that are counted at another one (race_group.h) are not counted here. */
void race_report_verdicts(struct race_report *r, enum race_grade grade_max,
			  size_t counts[RACE_VERDICTS]);

/*
 * What one record states, on its own: its locations, names, grade and fingerprint. v is zeroed
 * before.
 */
void race_describe(struct race_report *r, const struct race_record *record, struct race_view *v);

/*
 * What the baseline has, and the races that are shown, into its file, all or nothing. None is taken
 * out: what was not seen may just not have been caught this time. *added: how many are new. 0 or
 * -errno.
 */
int race_baseline_write(struct baseline *b, struct race_report *r, enum race_grade grade_max,
			const char *path, size_t *added);

/* Take in one record. *out is the race it belongs to, valid until the next call. 0 or -errno. */
int race_report_add(struct race_report *r, const struct race_record *record,
		    struct race_view **out);
size_t race_report_count(const struct race_report *r);
struct race_view *race_report_view(struct race_report *r, size_t i);
/*
 * Updates grades: an instruction or a variable may have been seen with a locked
 * instruction after its race was added. Call before printing.
 */
void race_report_settle(struct race_report *r);
/* How often a race was caught. */
uint64_t race_report_times(const struct race_report *r, const struct race_view *v);

/*
 * race_suppress.c: a suppression for this race alone, as far as a line can state it, to be put into
 * a file. NULL: none is asked for, or nothing is known that it could go by. To be freed.
 */
char *race_suppression(struct race_report *r, const struct race_view *v);
/* How many races it keeps, and how often they were caught. */
void race_suppression_uses(struct race_report *r, const struct suppression *s,
			   enum race_grade grade_max, size_t *races, uint64_t *times);

/* Did this run record heap blocks? */
bool race_report_has_heap(const struct race_report *r);
/* The block was allocated during the stall: the stalled access was to an older block. */
bool race_heap_is_new(const struct race_record *record);

/* race_text.c, race_json.c */
void race_print_text(struct race_report *r, const struct race_view *v, bool has_color, FILE *f);
void race_print_json(struct race_report *r, const struct race_view *v, FILE *f);
/* One access with its stack; when: "during the stall" or the like. */
void race_print_side(struct race_report *r, const struct race_side *side,
		     const struct race_access_place *a, const char *when, FILE *f);

/* Inside: race_report.c to race_grade.c and the printers. */
void race_grade(struct race_report *r, struct race_view *v);
/*
 * The symbols of the file of a location, and its address there; NULL: no file, or not
 * readable.
 */
struct symbols *race_symbols(struct race_report *r, uint64_t at, uint64_t *address);
/* A frame of a side, and whether it is a return address. */
uint64_t race_frame(const struct race_side *side, uint32_t i, bool *after);
void race_place(struct race_report *r, uint64_t at, bool after, struct place *out);
/* The same with the functions inlined there, innermost first; at least 1. */
#define RACE_INLINED 16
size_t race_frames(struct race_report *r, uint64_t at, bool after, struct place *out, size_t n);
/* The same as they are printed. How many. */
size_t race_run_frames(struct race_report *r, uint64_t at, bool after, struct run_frame *out,
		       size_t n);
struct file_places *race_places(struct race_report *r);
/* Where the source is, with its folder; false: not known. */
bool race_source(struct race_report *r, uint64_t at, bool after, char *path, size_t n);
/* race_suppress.c: by which suppression a race is; NULL: none. */
const struct suppression *race_suppressed(struct race_report *r, const struct race_view *v);

#endif
