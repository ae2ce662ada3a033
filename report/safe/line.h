/* SPDX-License-Identifier: MIT */
/* line.h - a line of a file that others wrote: a longer one than expected is not kept in memory. */
#ifndef REPORT_SAFE_LINE_H
#define REPORT_SAFE_LINE_H

#include <stdio.h>
#include <sys/types.h>

/*
 * As getline(3), but of a line of more than max bytes only the begin is read, and more than max is
 * returned. The same is returned where there is no memory for a line. -1: the file has ended.
 */
ssize_t line_read(char **text, size_t *room, FILE *f, size_t max);

#endif
