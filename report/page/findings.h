/* SPDX-License-Identifier: MIT */
/* findings.h - the JSON lines of a search for races, or for errors of the heap, as a page. */
#ifndef REPORT_PAGE_FINDINGS_H
#define REPORT_PAGE_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct findings;

/* Does a file begin as JSON lines do? A recording does not. */
bool findings_is_for(const char *path);
/*
 * Reads what `trapline race --json -o FILE` wrote, or `trapline heap`. 0 or -errno with a sentence
 * in why. *out is released by findings_free().
 */
int findings_read(const char *path, struct findings **out, char *why, size_t n);
/* One of the lines is damaged: what was found before it is there. */
size_t findings_bad_line(const struct findings *p);
void findings_print(FILE *f, struct findings *p);
void findings_free(struct findings *p);

#endif
