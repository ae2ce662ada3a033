/* SPDX-License-Identifier: MIT */
/*
 * text_line.h - a line of JSON that is written into a buffer: what does not fit is cut off.
 * AS-Unsafe.
 */
#ifndef RECORD_TEXT_LINE_H
#define RECORD_TEXT_LINE_H

#include <stddef.h>

struct text_line {
	char *at;
	size_t n; /* bytes of the buffer, 1 at least */
	size_t length;
};

__attribute__((format(printf, 2, 3))) void text_line_add(struct text_line *l, const char *format,
							 ...);

/* In quotes, of at most max bytes. A character that is not plain becomes '?'. */
void text_line_add_quoted(struct text_line *l, const char *text, size_t max);

#endif
