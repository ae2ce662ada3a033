/* SPDX-License-Identifier: MIT */
/*
 * search_reader.h - the thread of the library that reports what a search of this process finds.
 *
 * Handlers write records into a region and wake it by a futex, so it never runs while nothing is
 * found.
 */
#ifndef SEARCH_SEARCH_READER_H
#define SEARCH_SEARCH_READER_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define SEARCH_LINE_BYTES 32768u

struct search_reader {
	/* By the caller. Of the region, which outlives the thread: */
	uint32_t *told; /* the word that handlers change and wake */
	const uint64_t *write_at;
	const uint64_t *read_at;
	/* Reports the next record: 1, or 0 if none is ready. */
	int (*take)(void *arg);
	void *arg;
	int fd; /* gets the lines; 0 or less: nothing does */

	pthread_t thread;
	uint32_t is_over;
	uint64_t reported;
	uint64_t unwritten; /* lines */
	uint64_t torn;	    /* records that a thread began and never finished: take() counts them */
	char line[SEARCH_LINE_BYTES];
};

/* 0 or -errno. */
int search_reader_start(struct search_reader *r);
/* Reports what is there, and waits for what a handler has begun to write. */
void search_reader_end(struct search_reader *r);
/* In take(): the report is complete, and is so long in r->line, without its newline. */
void search_reader_report(struct search_reader *r, size_t length);

#endif
