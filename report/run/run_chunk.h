/* SPDX-License-Identifier: MIT */
/* run_chunk.h - the kinds of chunks in a recording of a run; their fields are in run_write.c. */
#ifndef RUN_CHUNK_H
#define RUN_CHUNK_H

/*
 * Part of the file: numbers are never used again. A reader skips chunks that it does not know, and
 * fields behind those it knows. New fields go to the end, and may be absent.
 */
enum run_chunk {
	RUN_INFO = 1,
	RUN_PLACE = 2,
	RUN_HIT = 3,
	RUN_END = 4,
	RUN_CALLS = 5, /* of breakpoints: hits are RUN_CALL then */
	RUN_SITE = 6,
	RUN_CALL = 7,
	RUN_CALLS_END = 8,
	RUN_OBJECTS = 9,    /* found at run time; before the end */
	RUN_MULTIPLEX = 10, /* of several expressions; before the end */
};

#endif
