/* SPDX-License-Identifier: MIT */
/* source.h - what the source text says of an access, where it can be read. */
#ifndef REPORT_SOURCE_H
#define REPORT_SOURCE_H

#include "report/symbols.h"

#include <stdint.h>
#include <stdio.h>

enum source_says {
	SOURCE_UNKNOWN, /* no line, or its file cannot be read */
	SOURCE_PLAIN,
	SOURCE_ATOMIC,
};

/*
 * Of the statement that line (from 1) is part of, with a #pragma before it: does it name something
 * atomic or volatile? Comments do not count. The stream is read on from where it stands.
 */
enum source_says source_says_in(FILE *stream, int line);

/*
 * As that, of the code at an address. The file is looked for where it was compiled and, if the tree
 * has been moved since, by the end of its name in the folders above the object.
 */
enum source_says source_says(struct symbols *s, uint64_t address, int line);

#endif
