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
#include "report/dwarf/symbols.h"
#include "report/run/run.h"

#include <stdbool.h>
#include <stdio.h>

#define FLOW_INLINED 16
#define FLOW_STACK_MAX (FLOW_FRAMES * FLOW_INLINED)

/* A function, and its caller. */
struct flow_where {
	char function[200];
	struct place place;
	char caller[200]; /* the first function outside of libc; empty: it is `function` itself */
	struct place caller_place;
};

struct flow_view {
	struct flow_record record;
	struct flow_where where;
	char fingerprint[20]; /* of the source, what got the bytes, and both locations */
};

struct flow_totals {
	uint64_t counters[FLOW_COUNTERS];
	uint64_t flows; /* into sinks */
	uint64_t residues;
	uint64_t sources;
	uint64_t unfinished; /* records that a process began and did not finish */
};

struct flow_report;

/* At the end of a run. *out is released by flow_report_close(), which takes NULL. 0 or -ENOMEM. */
int flow_report_open(const struct flow_region *region, struct flow_report **out);
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
/* Files are named as this process has them; 0: as the caller does. */
void flow_report_set_root(struct flow_report *r, pid_t root);
/* Files of the process that are open already, which outlive the report; NULL: none. */
struct kept_files;
void flow_report_set_kept(struct flow_report *r, const struct kept_files *kept);

void flow_report_totals(const struct flow_report *r, struct flow_totals *out);
size_t flow_report_count(const struct flow_report *r);
struct flow_view *flow_report_view(struct flow_report *r, size_t i);
uint32_t flow_report_sources(const struct flow_report *r);
/* NULL: there is none of that number. Numbers begin with 1. */
const struct flow_source *flow_report_source(const struct flow_report *r, uint32_t number);
uint32_t flow_report_steps(const struct flow_report *r);
const struct flow_step *flow_report_step(const struct flow_report *r, uint32_t number);
void flow_report_where(struct flow_report *r, const struct flow_stack *stack,
		       struct flow_where *out);
size_t flow_report_frames(struct flow_report *r, const struct flow_stack *stack,
			  struct run_frame *out);
/* The numbers of the steps from the source to this one; how many. */
uint32_t flow_report_path(const struct flow_report *r, uint32_t step, uint32_t *out, uint32_t most);

extern const char *const flow_kind_names[FLOW_KINDS];
extern const char *const flow_origin_names[FLOW_ORIGINS];
extern const char *const flow_memory_names[FLOW_MEMORIES];
extern const char *const flow_counter_names[FLOW_COUNTERS];

void flow_print_text(struct flow_report *r, bool is_verbose, bool has_color, FILE *f);
void flow_print_json(struct flow_report *r, FILE *f);
/* name: of the program, or NULL. */
void flow_print_html(struct flow_report *r, const char *name, FILE *f);
void flow_print_dot(struct flow_report *r, FILE *f);

#endif
