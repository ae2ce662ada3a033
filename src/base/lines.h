/* SPDX-License-Identifier: MIT */
/*
 * lines.h - the lines of a file of proc(5), without a stream of libc. In a process that was
 * attached to, a thread of Trapline that allocates would leave an arena of malloc() behind, of 64
 * MiB of address space.
 */
#ifndef BASE_LINES_H
#define BASE_LINES_H

#include <stddef.h>

#define LINES_BYTES 4608

struct lines {
	int fd;
	size_t at;   /* of the next line */
	size_t used; /* of bytes */
	char bytes[LINES_BYTES];
};

/* 0 or -errno. */
int lines_open(struct lines *lines, const char *path);
/*
 * Without its end, valid until the next call; NULL: no line is left. The rest of a longer one is a
 * line.
 */
char *lines_next(struct lines *lines);
void lines_close(struct lines *lines);

#endif
