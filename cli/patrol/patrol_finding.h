/* SPDX-License-Identifier: MIT */
/* patrol_finding.h - a line of a tool becomes a finding of this machine. */
#ifndef CLI_PATROL_PATROL_FINDING_H
#define CLI_PATROL_PATROL_FINDING_H

#include "cli/patrol/patrol_visit.h"

/* Adds id, host, time, rule, program and build ID. NULL: no memory. */
json_t *patrol_finding_of(const struct patrol_rules *r, const struct patrol_visit *v,
			  const json_t *line, double now);
/* The visit itself, which has ended: builds without findings were visited too. NULL: no memory. */
json_t *patrol_finding_of_visit(const struct patrol_rules *r, const struct patrol_visit *v,
				double now);
/*
 * Hides the values of arguments and variables with the names of the option hide. What a point
 * prints is hidden if its text or a member in it has such a name. point: its text, or NULL.
 */
void patrol_finding_hide(const struct patrol_rules *r, const char *point, json_t *finding);
/*
 * A copy in which no value of the program is left: bytes of blocks, values of variables and
 * arguments, and what a point printed. NULL: no memory.
 */
json_t *patrol_finding_without_values(const json_t *finding);

/* Seconds of the epoch in the form of all JSON. */
json_t *patrol_time(double seconds);

#endif
