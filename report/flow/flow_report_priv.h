/* SPDX-License-Identifier: MIT */
/*
 * flow_report_priv.h - what a report of flows consists of: of a run that has just ended, or read
 * from its lines.
 */
#ifndef FLOW_REPORT_PRIV_H
#define FLOW_REPORT_PRIV_H

#include "report/flow/flow_report.h"

#include <jansson.h>

/* A stack as the lines have it: its locations were found when they were written. */
struct flow_known {
	struct flow_where where;
	struct run_frame *frames;
	size_t count;
};

struct flow_report {
	const struct flow_region *region; /* NULL: it was read from lines */
	struct file_places *places;
	struct flow_source *sources; /* by number */
	struct flow_step *steps;
	struct flow_view *views; /* those that are shown first */
	size_t count;
	size_t shown;
	uint32_t source_end;
	uint32_t step_end;
	uint64_t unfinished;

	/* what the lines had: */
	json_t *lines;		  /* the objects, which have the texts */
	json_t *summary;	  /* NULL: the file has none */
	struct flow_known *known; /* a stack's first frame is the number of its row */
	size_t known_count;
	size_t known_room;
	size_t bad_line; /* 0: none */
};

/* The totals of a report that was read. */
void flow_report_totals_read(const struct flow_report *r, struct flow_totals *out);

/* flow_known.c: looks up each view in both, and puts those that are shown first. 0 or -ENOMEM. */
int flow_report_policy(struct flow_report *r, struct suppressions *s, struct baseline *b);

#endif
