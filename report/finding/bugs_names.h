/* SPDX-License-Identifier: MIT */
/*
 * bugs_names.h - function, file and line of bugs whose program has no debug information on its
 * host, by the build ID, on the machine that makes the report.
 *
 * The debug file is in /usr/lib/debug/.build-id, or a server of DEBUGINFOD_URLS has it.
 */
#ifndef REPORT_FINDING_BUGS_NAMES_H
#define REPORT_FINDING_BUGS_NAMES_H

#include <jansson.h>

/* Keeps what bugs_names() needs of a finding in its bug, which later has no member of it. */
void bugs_names_keep(json_t *bug, const json_t *finding);
/* Rows of bugs_rows(). */
void bugs_names(json_t *rows);

#endif
