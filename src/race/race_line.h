/* SPDX-License-Identifier: MIT */
/* race_line.h - a race as the program itself can describe it: a line of JSON. */
#ifndef RACE_LINE_H
#define RACE_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "record/race_judge.h"
#include "record/race_region.h"

/*
 * The race as a line of JSON as `trapline race --json` prints it, without members that need
 * symbols. Returns its length, at most n - 1.
 */
size_t race_report_line(const struct race_region *region, const struct race_record *record,
			struct race_judgement judgement, char *line, size_t n);
/* The file of a location, NULL: none; *offset is the address in it. */
const char *race_file_of(const struct race_region *region, uint64_t place, uint64_t *offset);

#endif
