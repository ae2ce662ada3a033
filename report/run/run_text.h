/* SPDX-License-Identifier: MIT */
/* run_text.h - the parts of a run's text, for runs that have others too. */
#ifndef REPORT_RUN_RUN_TEXT_H
#define REPORT_RUN_RUN_TEXT_H

#include "report/run/run.h"

void run_text_time(struct run_text *o, uint64_t wall_ns);
/* Columns grow with their content, so that lines stay aligned. */
int run_text_widen(int *width, const char *text, int most);
void run_text_frames(FILE *f, const struct run_frame *frames, size_t count);
/* How many frames of a stack are printed; frames_max 0: all of them. */
static inline size_t run_frames_shown(size_t count, size_t frames_max)
{
	return frames_max && frames_max < count ? frames_max : count;
}
/* title: of the last column. */
void run_text_sites(const struct run_text *o, const struct tally_sum *sums, size_t n,
		    uint64_t total, const char *title);
void run_text_threads(const struct run_text *o, const struct tally_sum *sums, size_t n,
		      uint64_t total);
void run_text_processes(const struct run_text *o, const struct tally_sum *sums, size_t n,
			uint64_t total);
/* How many rows of a table are printed. */
static inline size_t run_text_rows(const struct run_text *o)
{
	return o->rows_max ? o->rows_max : RUN_TEXT_ROWS;
}
/* `161 hits in 10.0 s, none lost`, and the exit status of the command if it is not 0. */
void run_text_headline(struct run_text *o, uint64_t hits, const struct run_end *end);
/* Lines after the tables are written to *more. A blank line separates them if there are any. */
struct run_lines {
	char *text;
	size_t size;
};
void run_text_more_begin(struct run_text *more, const struct run_text *o, struct run_lines *lines);
void run_text_more_end(struct run_text *more, const struct run_text *o, struct run_lines *lines,
		       bool has_tables);
/* What was lost, rejected and paused, and what it cost: nothing when all is well. */
void run_text_exceptions(struct run_text *o, const struct run_info *info, const struct run_end *end,
			 double cost_ns);
void run_text_pauses(FILE *f, const struct run_end *end, const char *more);
/* A line of -v: where the condition was evaluated. */
void run_text_evaluation(FILE *f, const struct run_end *end);
/* What a watch cannot see, and how often the value changed by that. */
void run_text_not_seen(FILE *f, const struct run_end *end);

#endif
