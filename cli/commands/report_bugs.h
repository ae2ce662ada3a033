/* SPDX-License-Identifier: MIT */
/* report_bugs.h - `trapline report --from`: findings of a patrol, of a folder or a database. */
#ifndef CLI_COMMANDS_REPORT_BUGS_H
#define CLI_COMMANDS_REPORT_BUGS_H

#include <stdint.h>
#include <stdio.h>

/*
 * from: a file or a folder of files of JSON lines, or `postgres:` and a connection. as: text, json,
 * html; NULL: text. since_ns: before now. To f. 0 or an exit status, line printed.
 */
int report_bugs(const char *from, const char *as, uint64_t since_ns, FILE *f);

#endif
