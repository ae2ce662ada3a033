/* SPDX-License-Identifier: MIT */
/*
 * search_end.h - how race, heap and flow wait for a program, and what they leave behind: files and
 * an exit status.
 */
#ifndef CLI_SEARCH_SEARCH_END_H
#define CLI_SEARCH_SEARCH_END_H

#include "report/finding/sarif.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* For search_pause(), which takes -1 too. */
int search_pidfd(pid_t pid);
/* Until the process ends, a signal arrives, or so many nanoseconds have passed. */
void search_pause(int pidfd, uint64_t ns);
/*
 * The search has ended and the program that was started runs on: the command has its exit status.
 * *status as waitpid() gives it. True: a signal was passed on to it.
 */
bool search_wait_for_program(const char *command, const char *what, const char *program, pid_t pid,
			     int *status);

/* Times and status of a program, for SARIF. */
void search_sarif_run(struct sarif_run *run, uint64_t wall_ns, int status);
/*
 * Closes a file that was written; NULL: it could not be opened. err: 0 or -errno. CLI_OK, or CLI_NO
 * with a note.
 */
int search_file_end(const char *command, const char *path, FILE *f, int err);

struct search_exit {
	bool has_found; /* something that is shown */
	uint64_t error_exitcode;
	bool is_baseline_written; /* on demand: what was found does not count as a failure then */
	int child;		  /* as waitpid() gives it; 0: it ended well, or is not a child */
	int blind;		  /* an exit status: nothing could be searched */
	int failed;		  /* an exit status: a file could not be written */
};
int search_exit_status(const struct search_exit *e);

#endif
