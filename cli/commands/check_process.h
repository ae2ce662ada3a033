/* SPDX-License-Identifier: MIT */
/*
 * check_process.h - which commands are possible at one process, and why others are not. Nothing of
 * the process is touched.
 */
#ifndef CLI_COMMANDS_CHECK_PROCESS_H
#define CLI_COMMANDS_CHECK_PROCESS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct check_process {
	pid_t pid;
	char name[64];
	size_t threads;
	char hidden[512]; /* why it cannot be observed at all, or empty */
	char sealed[512]; /* why no code can be loaded into it, or empty */
	bool is_go;	  /* race, heap and flow refuse it */
};

/* 0, or an exit status, line printed. */
int check_process_read(pid_t pid, struct check_process *out);

/* Why not, or how. *is_possible: as far as it depends on the process. */
const char *check_process_words(const struct check_process *p, const char *command,
				bool *is_possible);

#endif
