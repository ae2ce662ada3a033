/* SPDX-License-Identifier: MIT */
/* heap_line.h - a heap error as the program itself can describe it: a line of JSON. */
#ifndef HEAP_LINE_H
#define HEAP_LINE_H

#include <stddef.h>

#include "record/heap_region.h"

/*
 * The members of `trapline heap --json` that need no symbols. The files are those of the region.
 * Returns the length, at most n - 1. Not in a handler.
 */
size_t heap_report_line(const struct heap_region *region, const struct heap_record *record,
			char *line, size_t n);
/* The file of a location, NULL: none; *offset is the address in it. */
const char *heap_file_of(const struct heap_region *region, uint64_t place, uint64_t *offset);

#endif
