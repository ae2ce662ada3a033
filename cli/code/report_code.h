/* SPDX-License-Identifier: MIT */
/* report_code.h - `trapline report --code`: prints a code log, or what it answers. */
#ifndef CLI_CODE_REPORT_CODE_H
#define CLI_CODE_REPORT_CODE_H

#include <stdbool.h>
#include <stdio.h>

/* at: "ADDRESS@TIME" or "PID:ADDRESS@TIME", or NULL for all entries. Returns an exit status. */
int report_code(FILE *f, const char *path, const char *at, bool is_json);

#endif
