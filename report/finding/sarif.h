/* SPDX-License-Identifier: MIT */
/*
 * sarif.h - SARIF 2.1.0, which code scanning of many hosts and editors reads: what all tools have
 * in it.
 *
 * Files below the current folder are given relative to it (%SRCROOT%), as hosts want them.
 */
#ifndef REPORT_FINDING_SARIF_H
#define REPORT_FINDING_SARIF_H

#include "report/run/run.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct death;

/* what SARIF has of the program */
struct sarif_run {
	const char *program;
	const char *blind; /* why nothing could be found, or NULL */
	uint64_t started_s;
	uint64_t ended_s;
	int exit_code;
	int signal;			   /* that ended it; 0: none */
	bool is_running;		   /* it continues: there is no exit_code */
	const struct death *const *deaths; /* results of a rule of their own, behind the others */
	size_t death_count;
};

struct sarif_rule {
	const char *id;
	const char *name;
	const char *about;
	const char *help;
	const char *level; /* of a result that has none of its own */
	const char *tags[2];
};

json_t *sarif_rule(const struct sarif_rule *rule);
json_t *sarif_message(const char *text);
/* A stack with what happened there. */
json_t *sarif_stack(const struct run_frame *frames, size_t n, const char *text);
/* The format has no 0, and numbers of 32 bits. */
json_int_t sarif_count(uint64_t count);
/* Marks a result as known by the baseline or as new, and as suppressed; by: NULL, it is not. */
struct suppression;
void sarif_policy(json_t *result, bool has_baseline, bool is_baselined,
		  const struct suppression *by);
/*
 * A location as far as it is known: source line, function, module. text: what happens there; NULL:
 * nothing.
 */
json_t *sarif_location(const struct place *p, const char *source, const char *text);
/* The same of a finding, whose source is found by the file of its code. */
struct file_places;
struct finding_place;
json_t *sarif_finding_location(struct file_places *places, const struct finding_place *p,
			       const char *text);
/* The whole of a run. The three are given away. 0 or -errno. */
int sarif_print(const struct sarif_run *run, json_t *rules, json_t *results, json_t *summary,
		FILE *f);

#endif
