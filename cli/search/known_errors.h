/* SPDX-License-Identifier: MIT */
/*
 * known_errors.h - errors that are not to be reported: suppressions, and a baseline.
 *
 * An error in any of the files is reported before the program starts: at the end of a long run it
 * would be too late.
 */
#ifndef CLI_SEARCH_KNOWN_ERRORS_H
#define CLI_SEARCH_KNOWN_ERRORS_H

#include "cli/opts.h"
#include "report/finding/baseline.h"
#include "report/suppress/suppress.h"

#include <stdbool.h>

/* Adds the files, and those of TRAPLINE_SUPPRESSIONS. 0, or an exit status with a line printed. */
int known_suppressions(const char *command, const struct opt_list *files, struct suppressions *s);

/* path NULL: none. A file that does not exist is an empty baseline. As above. */
int known_baseline(const char *command, const char *path, int is_written, struct baseline **out);

/*
 * Is the baseline written at the end? The first run makes the file. What it found is new, and fails
 * it if a finding is to fail a run.
 */
bool known_is_written(const char *path, int is_asked);

/* Can a file be put there, for this option? As above. */
int known_folder(const char *command, const char *option, const char *path);

#endif
