/* SPDX-License-Identifier: MIT */
/*
 * child.h - a process that works for a service: this program with other words, or one of the
 * system. What it prints is read line by line, without a wait.
 *
 * It may die at any time. It ends with the service.
 */
#ifndef CLI_SERVICE_CHILD_H
#define CLI_SERVICE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CHILD_WORDS_MAX 64
#define CHILD_NOT_FOUND 127 /* the exit status where PATH has no such program */

/* Each word is memory of its own. */
struct child_words {
	char *word[CHILD_WORDS_MAX];
	size_t count;
	bool is_short; /* of memory, or of room */
};

/* `option`, or `option=value`. */
void child_words_add(struct child_words *w, const char *option, const char *value);
/* Each word as it is. */
void child_words_add_all(struct child_words *w, const char *const *words, size_t n);
void child_words_free(struct child_words *w);

/* What came from a pipe and has no end of line yet. */
struct child_lines {
	int fd; /* -1: closed */
	char *text;
	size_t used;
	bool is_cut; /* the rest of the line is dropped */
};

struct child {
	pid_t pid; /* 0: none */
	struct child_lines out;
	struct child_lines err;
	bool is_ending;
	uint64_t ended_ns; /* when it was asked to end */
};

/* One that does not run. */
#define CHILD_NONE                         \
	{                                  \
		.out.fd = -1, .err.fd = -1 \
	}

/*
 * program NULL: this one; else it is found in PATH. input: its standard input, which stays the
 * caller's; -1: nothing. 0 or -errno; a program that is missing is seen by its exit status.
 */
int child_start(struct child *c, const char *program, const struct child_words *words, int input);
/*
 * Reads what is there, up to some 64 KiB, and calls fn with each line, which ends in '\0' instead
 * of a line feed. Returns the lines that were too long, which are dropped.
 */
uint64_t child_lines_read(struct child_lines *lines,
			  void (*fn)(void *arg, const char *line, size_t n), void *arg);
/* Asks it to end, and later ends it. It prints its summary in between. */
void child_end(struct child *c);
/* False: it runs. True: *status is that of waitpid(); what it wrote can still be read. */
bool child_has_ended(struct child *c, int *status);
void child_release(struct child *c);

#endif
