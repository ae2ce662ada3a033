/* SPDX-License-Identifier: MIT */
/*
 * run_file.h - a run in a file, which is written hit by hit and read as a whole.
 *
 * The file has names and values as text, so that it can be read on another machine and after the
 * program was removed.
 */
#ifndef RUN_FILE_H
#define RUN_FILE_H

#include "report/run/run_call.h"

struct run_writer;

/* 0 or -errno. *out is released by run_writer_close(). */
int run_writer_open(const char *path, const struct run_info *info, struct run_writer **out);
/* What a run of breakpoints has before its first hit; calls must live as long as the writer. */
int run_writer_calls(struct run_writer *w, const struct run_calls *calls);
int run_writer_hit(struct run_writer *w, const struct run_hit *hit);
int run_writer_calls_end(struct run_writer *w, const struct run_calls_end *end);
int run_writer_end(struct run_writer *w, const struct run_end *end);
int run_writer_flush(struct run_writer *w);
void run_writer_close(struct run_writer *w);

struct run_session {
	struct run_info info;
	struct run_hit *hits;
	size_t hit_count;
	struct run_calls *calls; /* NULL: hits are accesses to data */
	struct run_calls_end calls_end;
	struct run_end end;
	bool has_end;	   /* else the recorder did not live to write it */
	size_t good_bytes; /* of the file; less than all when the rest is damaged */
	size_t all_bytes;
	struct run_session_rest *rest;
};

/*
 * 0 or -errno with a sentence in why. Of a file that is damaged or incomplete the part before the
 * damage is read. *out is released by run_session_free().
 */
int run_session_read(const char *path, struct run_session **out, char *why, size_t n);
/* The same from memory, which stays the caller's, is changed, and must live as long. */
int run_session_parse(unsigned char *data, size_t size, struct run_session **out, char *why,
		      size_t n);
void run_session_free(struct run_session *s);

/* Stacks with their counts, one a line, outermost first: what flame graph tools read. */
void run_folded(FILE *f, const struct run_session *s);
/* Trace events in JSON: each hit in the track of its thread, and the value as a counter. */
void run_trace(FILE *f, const struct run_session *s);
/* One page with everything in it. */
void run_html(FILE *f, const struct run_session *s);

#endif
