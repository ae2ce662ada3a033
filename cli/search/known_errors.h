/* SPDX-License-Identifier: MIT */
/*
 * known_errors.h - findings that are not to be reported: suppressions, and a baseline.
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

/* What race, heap and flow take from the user, by options of the same names. */
struct known_settings {
	struct opt_list suppressions; /* files */
	const char *baseline;	      /* a file that may not exist yet; NULL: none */
	int write_baseline;
	const char *sarif; /* a file that is written at the end; NULL: none */
};

struct known_errors {
	struct suppressions *suppressions;
	struct baseline *baseline; /* NULL: none */
};

/*
 * Reads the files, and those of TRAPLINE_SUPPRESSIONS; checks that those of the end can be written.
 * 0, or an exit status with a line printed. Released by known_close() in either case.
 */
int known_open(const char *command, const struct known_settings *set, struct known_errors *out);
void known_close(struct known_errors *known);

/*
 * Is the baseline written at the end? The first run makes the file. What it found is new, and fails
 * it if a finding is to fail a run.
 */
bool known_is_written(const struct known_settings *set);

#endif
