/* SPDX-License-Identifier: MIT */
/* lines.c - see lines.h. */
#include "base/lines.h"
#include "base/own_fd.h"

#include <fcntl.h>
#include <string.h>

#include "base/sys.h"

int lines_open(struct lines *lines, const char *path)
{
	lines->fd = own_fd_open(path, O_RDONLY);
	lines->at = lines->used = 0;
	return lines->fd < 0 ? lines->fd : 0;
}

/* 1: something was read. */
static int read_more(struct lines *lines)
{
	const size_t kept = lines->used - lines->at;

	memmove(lines->bytes, lines->bytes + lines->at, kept);
	lines->at = 0;
	lines->used = kept;
	ssize_t n = sys_read(lines->fd, lines->bytes + kept, sizeof(lines->bytes) - 1 - kept);
	lines->used += n > 0 ? (size_t)n : 0;
	return n > 0;
}

char *lines_next(struct lines *lines)
{
	char *end;

	do {
		char *line = lines->bytes + lines->at;

		const char *used = lines->bytes + lines->used;
		for (end = line; end < used && *end != '\n'; end++)
			;
		if (end < used) {
			*end = 0;
			lines->at = (size_t)(end + 1 - lines->bytes);
			return line;
		}
	} while (read_more(lines));
	if (lines->at == lines->used)
		return NULL;
	lines->bytes[lines->used] = 0;
	lines->at = lines->used;
	return lines->bytes;
}

void lines_close(struct lines *lines)
{
	sys_close(lines->fd);
}
