/* SPDX-License-Identifier: MIT */
/* child.h - a program started by a bench, on a CPU of its choice, spoken with by lines. */
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H

#include <stddef.h>
#include <sys/types.h>

#define CHILD_ANY_CPU (-1)

struct child {
	pid_t pid; /* 0: not started */
	int in;	   /* to its standard input; -1 once closed */
	int out;   /* from its standard output and errors */
	size_t used;
	size_t line_end; /* of the line given last, which the next call drops */
	char text[4096];
};

/* 0 or -errno. The child ends with its parent. */
int child_start(struct child *child, char *const argv[], int cpu);

/* The next line without its end, valid until the next call; NULL: no more, or none in time. */
const char *child_line(struct child *child, int timeout_ms);

/* 0 or -errno. */
int child_say(struct child *child, const char *line);

/* Closes its input: the children here end by that. */
void child_close_input(struct child *child);

/* Ends it if it does not end by itself within timeout_ms; its exit status, 128 + a signal. */
int child_end(struct child *child, int timeout_ms);

#endif
