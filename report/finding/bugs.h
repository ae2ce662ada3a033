/* SPDX-License-Identifier: MIT */
/*
 * bugs.h - findings of many hosts and builds, as one row for each bug.
 *
 * The findings are those that `trapline patrol` sends. A bug is a fingerprint. It is new if it was
 * first seen after a moment. It is gone if the same tool visited later builds of its program often
 * enough without a finding of it. The visits of the builds that have the bug give its rate. Often
 * enough: at this rate, fewer than 5 of 100 such series would find nothing.
 */
#ifndef REPORT_FINDING_BUGS_H
#define REPORT_FINDING_BUGS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct bugs {
	json_t *bugs;	  /* by fingerprint */
	json_t *programs; /* their builds, and how often each tool visited them */
	json_t *ids;	  /* of findings: one that was sent twice counts once */
	uint64_t findings;
	uint64_t bad; /* lines of something else */
};

/* 0 or -ENOMEM. */
int bugs_new(struct bugs *out);
void bugs_free(struct bugs *b);
/* One line of JSON. */
void bugs_add(struct bugs *b, const char *line, size_t n);

/*
 * An array, new ones first, then those that were seen last, then those that are gone. since: a time
 * like those of findings. NULL: no memory.
 */
json_t *bugs_rows(const struct bugs *b, const char *since);

void bugs_print_text(const struct bugs *b, const json_t *rows, FILE *f);
void bugs_print_json(const json_t *rows, FILE *f);
/* The page; name: of what was read. */
void bugs_print_page(const struct bugs *b, const json_t *rows, const char *name, const char *since,
		     FILE *f);

#endif
