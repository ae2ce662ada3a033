/* SPDX-License-Identifier: MIT */
/*
 * rotated_file.h - lines in a file, and a new one at each size: FILE is the newest, then FILE.1,
 * FILE.2 and so on.
 */
#ifndef CLI_SERVICE_ROTATED_FILE_H
#define CLI_SERVICE_ROTATED_FILE_H

#include <stddef.h>
#include <stdint.h>

struct rotated_file {
	const char *path;
	int fd; /* -1: not open */
	uint64_t size;
	uint64_t rotate_bytes; /* 0: never */
	uint64_t keep;
};

/* path stays the caller's. The file is opened with the first line. */
void rotated_file_open(struct rotated_file *f, const char *path, uint64_t rotate_bytes,
		       uint64_t keep);
/* The line and a line feed. 0 or -errno: no part of it is in the file. */
int rotated_file_send(struct rotated_file *f, const char *line, size_t n);
/* Another program may have moved or removed it: the next line then makes it again. */
void rotated_file_look(struct rotated_file *f);
void rotated_file_close(struct rotated_file *f);

#endif
