/* SPDX-License-Identifier: MIT */
/* line.c - see line.h. */
#include "report/safe/line.h"

#include <stdlib.h>

static int make_room(char **text, size_t *room, size_t bytes)
{
	size_t size = *room ? *room : 256;

	while (size < bytes)
		size *= 2;
	if (size == *room)
		return 0;
	char *bigger = realloc(*text, size);
	if (!bigger)
		return -1;
	*text = bigger;
	*room = size;
	return 0;
}

ssize_t line_read(char **text, size_t *room, FILE *f, size_t max)
{
	size_t n = 0;
	int c = 0;

	while (c != '\n' && n <= max && (c = getc_unlocked(f)) != EOF) {
		if (make_room(text, room, n + 2))
			return (ssize_t)max + 1;
		(*text)[n++] = (char)c;
	}
	if (!n)
		return -1;
	(*text)[n] = 0;
	return (ssize_t)n;
}
