/* SPDX-License-Identifier: MIT */
/*
 * output.h - where the lines of a run go: text for people, JSON for programs, a status line.
 *
 * Output is flushed once per batch of records, not per line; the status line is on stderr and is
 * taken away before anything is printed below it.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "report/run.h"

#include <stdbool.h>
#include <stdio.h>

struct output {
	struct run_text text; /* f NULL: none */
	FILE *json;	      /* NULL: none */
	bool status;	      /* a status line on stderr */
	bool status_shown;
	uint64_t clock_offset_ns; /* wall clock minus CLOCK_MONOTONIC */
	uint64_t status_at_ns;
	uint64_t status_hits;
	uint64_t status_rate;
	uint64_t started_ns;
	/* What else is to be flushed; false: that failed. NULL: nothing. */
	bool (*flush_more)(void *arg);
	void *arg;
};

/* file: of the JSON lines, or NULL; json: no text. 0 or an exit status, line printed. */
int output_open(struct output *o, const char *command, const char *file, int json);
/* Everything out, and the status line afresh. False: nobody reads our output any more. */
bool output_flush(struct output *o, uint64_t hits, bool paused);
/* A line on the terminal that the next one replaces; nothing elsewhere. */
void output_progress(struct output *o, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void output_clear_status(struct output *o);
void output_close(struct output *o);

#endif
