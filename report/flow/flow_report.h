/* SPDX-License-Identifier: MIT */
/*
 * flow_report.h - where bytes went: from the records of a run to what is printed.
 *
 * Everything is copied from the memory that the processes share, once and checked. A step has a
 * lower number than what was made of it: so a path ends.
 */
#ifndef FLOW_REPORT_H
#define FLOW_REPORT_H

#include "record/flow_region.h"
#include "report/finding/baseline.h"
#include "report/finding/finding_place.h"
#include "report/finding/sarif.h"
#include "report/run/run.h"
#include "report/suppress/suppress.h"

#include <stdbool.h>
#include <stdio.h>

#define FLOW_INLINED 16
#define FLOW_STACK_MAX (FLOW_FRAMES * FLOW_INLINED)

/* The innermost function that the user wrote. */
struct flow_where {
	struct finding_place in;
	char name[200]; /* of `in`; module and offset, where it has none */
	char via[200];	/* the innermost function, of a library; empty: it is `in` itself */
};

struct flow_view {
	struct flow_record record;
	struct flow_where where;
	char fingerprint[20]; /* of the source, what got the bytes, and both locations */
	bool is_baselined;
	const struct suppression *suppressed; /* NULL: by none */
};

struct flow_totals {
	uint64_t counters[FLOW_COUNTERS];
	uint64_t flows; /* into sinks, that are shown */
	uint64_t residues;
	uint64_t suppressed; /* not shown, flows and residues */
	uint64_t baselined;
	uint64_t sources;
	uint64_t unfinished; /* records that a process began and did not finish */
};

/* Bytes were followed, and no process was searched for what it left. */
static inline bool flow_is_unsearched(const struct flow_totals *t)
{
	return t->counters[FLOW_FOLLOWED] && !t->counters[FLOW_SEARCHED] && !t->residues;
}

struct flow_report;
struct kept_files;

/* What is pointed to outlives the report. */
struct flow_report_options {
	pid_t root; /* files are named as this process has them; 0: as the caller does */
	const struct kept_files *kept; /* of the process, open already; NULL: none */
	struct suppressions *suppressions;
	struct baseline *baseline; /* NULL: none */
};

/* At the end of a run. *out is released by flow_report_close(), which takes NULL. 0 or -ENOMEM. */
int flow_report_open(const struct flow_region *region, const struct flow_report_options *options,
		     struct flow_report **out);
/*
 * From what `trapline flow --json -o FILE` wrote. 0 or -errno; -EBADMSG: the file is something
 * else. *out is released as the one above.
 */
int flow_report_read(const char *path, struct flow_report **out);
/* How processes died, of a report that was read: as its lines, or as text. */
void flow_report_deaths(const struct flow_report *r, bool is_json, bool has_color, FILE *f);
/* One of the lines is damaged: what was before it is there. 0: none is. */
size_t flow_report_bad_line(const struct flow_report *r);
void flow_report_close(struct flow_report *r);

void flow_report_totals(const struct flow_report *r, struct flow_totals *out);
/* How many are shown. Those that are suppressed or in the baseline are behind them. */
size_t flow_report_count(const struct flow_report *r);
size_t flow_report_count_all(const struct flow_report *r);
struct flow_view *flow_report_view(struct flow_report *r, size_t i);
/* The flows that are shown, into the file of a baseline. *added: how many are new. 0 or -errno. */
int flow_baseline_write(struct baseline *b, struct flow_report *r, const char *path, size_t *added);
uint32_t flow_report_sources(const struct flow_report *r);
/* NULL: there is none of that number. Numbers begin with 1. */
const struct flow_source *flow_report_source(const struct flow_report *r, uint32_t number);
uint32_t flow_report_steps(const struct flow_report *r);
const struct flow_step *flow_report_step(const struct flow_report *r, uint32_t number);
void flow_report_where(struct flow_report *r, const struct flow_stack *stack,
		       struct flow_where *out);
size_t flow_report_frames(struct flow_report *r, const struct flow_stack *stack,
			  struct run_frame *out);
/* Where its locations have their names from; NULL: the report was read. */
struct file_places *flow_report_places(struct flow_report *r);
/* The stack of what has the bytes: of the sink, or of what wrote a residue; NULL: not known. */
const struct flow_stack *flow_report_last(const struct flow_report *r,
					  const struct flow_record *record);
/* The numbers of the steps from the source to this one; how many. */
uint32_t flow_report_path(const struct flow_report *r, uint32_t step, uint32_t *out, uint32_t most);

extern const char *const flow_kind_names[FLOW_KINDS];
extern const char *const flow_origin_names[FLOW_ORIGINS];
extern const char *const flow_memory_names[FLOW_MEMORIES];
extern const char *const flow_counter_names[FLOW_COUNTERS];
extern const char *const flow_grade_names[FLOW_GRADES];

static inline bool flow_step_is_computed(const struct flow_step *s)
{
	return !s->is_moved && (s->grade == FLOW_GRADE_B || s->grade == FLOW_GRADE_C);
}

void flow_print_text(struct flow_report *r, bool is_verbose, bool has_color, FILE *f);
void flow_print_json(struct flow_report *r, FILE *f);
/* name: of the program, or NULL. */
void flow_print_html(struct flow_report *r, const char *name, FILE *f);
void flow_print_dot(struct flow_report *r, FILE *f);
json_t *flow_summary_object(struct flow_report *r);
/* flow_sarif.c: all flows, suppressed and known ones marked as such. 0 or -errno. */
int flow_print_sarif(struct flow_report *r, const struct sarif_run *run, bool has_baseline,
		     FILE *f);

#endif
