/* SPDX-License-Identifier: MIT */
/*
 * point_sink.h - where the lines of points go: a file, a new one at each size, or the journal.
 *
 * The collector never waits for a receiver. What a receiver does not take is counted.
 */
#ifndef CLI_POINT_POINT_SINK_H
#define CLI_POINT_POINT_SINK_H

#include "cli/point/point.h"

struct point_sinks {
	struct point_sink *first;
	const char *file;      /* of points that name no receiver */
	uint64_t rotate_bytes; /* 0: one file */
	uint64_t keep;	       /* files beside the one that is written */
};

/* Is it a receiver? NULL, or what is wrong with it. */
const char *point_sink_wrong(const char *to);

/*
 * One line of JSON, without its line feed, of the point. 0 or -errno; then the line was not taken
 * and no part of it was written.
 */
int point_sink_send(struct point_sinks *sinks, const struct point *p, const char *line, size_t n);
/* Looks whether a file was moved away or removed. */
void point_sinks_look(struct point_sinks *sinks);
void point_sinks_close(struct point_sinks *sinks);

#endif
