/* SPDX-License-Identifier: MIT */
#ifndef REPORT_SAFE_PRIVATE_FILE_H
#define REPORT_SAFE_PRIVATE_FILE_H

#include <stdio.h>

/*
 * Opens a file for writing, from its beginning. A new file has mode 0600, since it has memory of
 * another program; one that exists keeps its mode. NULL with errno.
 */
FILE *private_file(const char *path);

#endif
