/* SPDX-License-Identifier: MIT */
/*
 * point_observer.h - the process that observes for one point: `trapline break --name ... --json`.
 *
 * It may die at any time: the target continues, the other points too, and the collector starts
 * another one.
 */
#ifndef CLI_POINT_POINT_OBSERVER_H
#define CLI_POINT_POINT_OBSERVER_H

#include "cli/point/point.h"

#include <sys/types.h>

/* What came from a pipe and has no end of line yet. */
struct point_lines {
	int fd; /* -1: closed */
	char *text;
	size_t used;
	bool is_cut; /* the rest of the line is dropped */
};

struct point_observer {
	pid_t pid; /* 0: none */
	struct point_lines out;
	struct point_lines err;
	bool is_ending;
	uint64_t ended_ns; /* when it was asked to end */
};

/* 0 or -errno. */
int point_observer_start(struct point_observer *o, const struct point *p);
/*
 * Reads what is there, up to some 64 KiB, and calls fn with each line, which ends in '\0' instead
 * of a line feed. Returns the lines that were too long, which are dropped.
 */
uint64_t point_lines_read(struct point_lines *lines,
			  void (*fn)(void *arg, const char *line, size_t n), void *arg);
/* Asks it to end, and later ends it. It prints its summary in between. */
void point_observer_end(struct point_observer *o);
/* False: it runs. True: *status is that of waitpid(), and all that it wrote has been read. */
bool point_observer_has_ended(struct point_observer *o, int *status);
void point_observer_release(struct point_observer *o);

#endif
