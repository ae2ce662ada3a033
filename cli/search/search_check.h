/* SPDX-License-Identifier: MIT */
/*
 * search_check.h - can this program be searched by race, heap or flow? What is known beforehand is
 * refused before the program starts, or before anything is loaded into the process.
 */
#ifndef CLI_SEARCH_SEARCH_CHECK_H
#define CLI_SEARCH_SEARCH_CHECK_H

#include <stdint.h>
#include <sys/types.h>

/* What the commands differ in. */
struct search_kind {
	const char *command;	/* of trapline */
	const char *verb;	/* "cannot VERB ./program" */
	const char *why_not_go; /* "it is a Go program, WHY", with the remedy */
	const char *loaded;	/* whose system calls a seccomp filter may forbid */
};

/* Each returns 0, or an exit status with a line printed. */
int search_check_command(const struct search_kind *kind, char *const *command);
int search_check_process(const struct search_kind *kind, pid_t pid);
int search_check_overhead(const struct search_kind *kind, double percent, double most);
int search_check_exitcode(const struct search_kind *kind, uint64_t code);

#endif
