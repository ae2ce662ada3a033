/* SPDX-License-Identifier: MIT */
/*
 * output.h - where the lines of a run go: text for people, JSON for programs, a recording, and a
 * status line.
 *
 * Output is flushed once per batch of records, not per line. The status line is on stderr and is
 * removed before anything is printed below it. A sink that cannot be written ends the run.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "report/run/run_file.h"

#include <stdbool.h>
#include <stdio.h>

struct output {
	const char *command;	   /* of trapline, for messages */
	struct run_text text;	   /* f NULL: none */
	bool is_quiet;		   /* of the text only the summary */
	FILE *json;		   /* NULL: none */
	const char *json_path;	   /* NULL: standard output */
	struct run_writer *record; /* NULL: none */
	const char *record_path;
	bool status; /* a status line on stderr */
	bool status_shown;
	uint64_t clock_offset_ns; /* wall clock minus CLOCK_MONOTONIC */
	uint64_t status_at_ns;
	uint64_t status_hits;
	uint64_t status_rate;
	uint64_t started_ns;
	uint64_t flushed_hits;	 /* that were written for certain */
	const char *failed_path; /* what could not be written; NULL: nothing failed */
	int failed_err;		 /* the errno */
};

/* file: of the JSON lines, or NULL; json: no text. 0 or an exit status, line printed. */
int output_open(struct output *o, const char *command, const char *file, int json);
/* Hits go to a recording too; calls NULL: they are accesses. 0 or an exit status, line printed. */
int output_record(struct output *o, const char *path, const struct run_info *info,
		  const struct run_calls *calls);
/* To the recording, if there is one. */
void output_record_hit(struct output *o, const struct run_hit *hit);
void output_record_end(struct output *o, const struct run_end *end,
		       const struct run_calls_end *calls_end);
/* Everything out, and the status line with `state` again. False: something could not be written. */
bool output_flush(struct output *o, uint64_t hits, const char *state);
/* After the last line. 0, or CLI_NO with a line that states what was kept. */
int output_finish(struct output *o, uint64_t hits);
/* A line on the terminal that the next one replaces; nothing elsewhere. */
void output_progress(struct output *o, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* On a terminal twice a second. Not for a command that shows its hits in that line. */
bool output_progress_is_due(struct output *o);
void output_clear_status(struct output *o);
void output_close(struct output *o);

#endif
