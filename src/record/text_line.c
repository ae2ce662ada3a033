/* SPDX-License-Identifier: MIT */
/* text_line.c - see text_line.h. */
#include "record/text_line.h"

#include <stdarg.h>
#include <stdio.h>

void text_line_add(struct text_line *l, const char *format, ...)
{
	size_t left = l->n - l->length;
	va_list args;

	va_start(args, format);
	int n = vsnprintf(l->at + l->length, left, format, args);
	va_end(args);
	l->length += n < 0 ? 0 : (size_t)n < left ? (size_t)n : left - 1;
}

void text_line_add_quoted(struct text_line *l, const char *text, size_t max)
{
	text_line_add(l, "\"");
	for (size_t i = 0; i < max && text[i]; i++)
		if (text[i] == '"' || text[i] == '\\')
			text_line_add(l, "\\%c", text[i]);
		else
			text_line_add(l, "%c", text[i] >= ' ' && text[i] <= '~' ? text[i] : '?');
	text_line_add(l, "\"");
}
