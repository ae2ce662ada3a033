/* SPDX-License-Identifier: MIT */
/*
 * uncovered.h - the processes of a command that run without the agent.
 *
 * The loader preloads the agent into each program that the command runs, except those that it
 * cannot: static, 32-bit or setuid programs, and programs that get another environment. /proc has
 * the reason while such a process runs.
 */
#ifndef CLI_LAUNCH_UNCOVERED_H
#define CLI_LAUNCH_UNCOVERED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define UNCOVERED_KNOWN 1024

struct uncovered {
	const char *mapping; /* of what the agent maps: a process with it is covered */
	uint64_t count;	     /* of programs found */
	pid_t pid;	     /* the first of them */
	char name[16];
	const char *why; /* `it is linked statically; link it dynamically` */
	/* Covered processes that lived at the last inspection, and one of them. */
	uint64_t alive;
	pid_t alive_pid;
	char alive_name[16];
	uint64_t starting; /* of which it was not known yet */
	/* By process id: the program that was inspected last, by its inode. */
	struct {
		pid_t pid;
		uint64_t inode;
		bool is_covered;
	} known[UNCOVERED_KNOWN];
};

/*
 * Inspects the descendants of this process; what ended before is missed. Daemons are among them, if
 * it is a subreaper (prctl(2)).
 */
void uncovered_inspect(struct uncovered *u);

#endif
