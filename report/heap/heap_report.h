/* SPDX-License-Identifier: MIT */
/*
 * heap_report.h - heap errors explained: from the records of a run to what is printed.
 *
 * Records of one kind, of one location in the source and of blocks from one location are one error.
 */
#ifndef HEAP_REPORT_H
#define HEAP_REPORT_H

#include "record/heap_region.h"
#include "report/finding/baseline.h"
#include "report/finding/finding_place.h"
#include "report/finding/sarif.h"
#include "report/lang/block_type.h"
#include "report/run/run.h"
#include "report/suppress/suppress.h"

#include <stdbool.h>
#include <stdio.h>

#define HEAP_INLINED 16
#define HEAP_STACK_MAX (HEAP_FRAMES * HEAP_INLINED)

struct heap_view {
	struct heap_record record;
	struct finding_place first;
	struct finding_place alloc;
	struct finding_place freed;
	struct block_type type;
	char member[160]; /* of it that the access begins in; empty: not known */
	uint64_t size;	  /* of the access; 0: not known */
	char fingerprint[20];
	uint64_t count; /* records */
	bool is_told;
	bool is_baselined;
	const struct suppression *suppressed; /* NULL: by none */
};

struct heap_report;

/*
 * The region outlives it. *out is released by heap_report_close(), which takes NULL. 0 or -ENOMEM.
 */
int heap_report_open(const struct heap_region *region, struct heap_report **out);
void heap_report_close(struct heap_report *r);
/* Files are named as this process has them; 0: as the caller does. */
void heap_report_set_root(struct heap_report *r, pid_t root);
/* Files of the process that are open already, which outlive the report; NULL: none. */
struct kept_files;
void heap_report_set_kept(struct heap_report *r, const struct kept_files *kept);
/* Both may be NULL, and outlive the report. Give before the first record. */
void heap_report_set_policy(struct heap_report *r, struct suppressions *s, struct baseline *b);
/* The errors that are shown, into the file of a baseline. *added: how many are new. 0 or -errno. */
int heap_baseline_write(struct baseline *b, struct heap_report *r, const char *path, size_t *added);

/* Takes in one record. 0 or -errno. */
int heap_report_add(struct heap_report *r, const struct heap_record *record);
size_t heap_report_count(const struct heap_report *r);
struct heap_view *heap_report_view(struct heap_report *r, size_t i);

/*
 * The frames of a moment, at most HEAP_STACK_MAX. is_access: the first one is the instruction
 * itself.
 */
size_t heap_report_frames(struct heap_report *r, const struct heap_moment *m, bool is_access,
			  struct run_frame *out);

/* heap_type.c: fills in what the block may be. */
void heap_report_type(struct heap_report *r, struct heap_view *v);

/* Where its locations have their names from. */
struct file_places *heap_report_places(struct heap_report *r);

extern const char *const heap_kind_names[HEAP_KINDS]; /* "use-after-free" */
extern const char *const heap_access_names[3];	      /* "read" */
/* What is wrong, in a few words: `0 bytes after the block`, `on the stack`. */
void heap_report_where(const struct heap_view *v, char *text, size_t n);

/* What the run has to state beside its errors. */
struct heap_totals {
	uint64_t counters[HEAP_COUNTERS];
	uint64_t pool_bytes;
	uint64_t torn;
	uint64_t wall_ns;
	double budget; /* a part of 1 */
	uint64_t first;
	uint64_t seed;
	bool has_regions;
	bool is_growth;
	char why_unwatched[200];
	size_t errors; /* that are shown */
	size_t suppressed;
	size_t baselined;
};
void heap_totals(const struct heap_region *region, struct heap_totals *out);
/* Errors that are not suppressed. */
bool heap_is_shown(const struct heap_view *v);

void heap_print_text(struct heap_report *r, const struct heap_view *v, bool has_color, FILE *f);
void heap_print_json(struct heap_report *r, const struct heap_view *v, FILE *f);
json_t *heap_summary_object(const struct heap_totals *t);
/* heap_sarif.c: all errors, suppressed and known ones marked as such. 0 or -errno. */
int heap_print_sarif(struct heap_report *r, const struct heap_totals *t,
		     const struct sarif_run *run, bool has_baseline, FILE *f);
double heap_cost_most(const struct heap_totals *t); /* ns */
void heap_summary_text(const struct heap_totals *t, bool is_verbose, FILE *f);
void heap_summary_json(const struct heap_totals *t, FILE *f);
/* The names of the counters in JSON. */
extern const char *const heap_counter_names[HEAP_COUNTERS];

#endif
