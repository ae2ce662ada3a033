/* SPDX-License-Identifier: MIT */
/* race_page.h - the JSON lines of a search for races as a page. */
#ifndef REPORT_RACE_RACE_PAGE_H
#define REPORT_RACE_RACE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct race_page;

/* Does a file begin as JSON lines do? A recording does not. */
bool race_page_is_for(const char *path);
/*
 * Reads what `trapline race --json -o FILE` wrote. 0 or -errno with a sentence in why. *out is
 * released by race_page_free().
 */
int race_page_read(const char *path, struct race_page **out, char *why, size_t n);
/* Of the lines one is damaged: the races before it are there. */
size_t race_page_bad_line(const struct race_page *p);
void race_page_print(FILE *f, struct race_page *p);
void race_page_free(struct race_page *p);

#endif
