/* SPDX-License-Identifier: MIT */
/*
 * file_table.h - the object files of a run's processes, as rows that they share.
 *
 * A location is file << 48 | address in that file. It means the same in every process, at any load
 * address, and after the process has ended. File 0 means no file: the rest is an address.
 */
#ifndef RECORD_FILE_TABLE_H
#define RECORD_FILE_TABLE_H

#include <stdint.h>

#define FILE_PLACE_BITS 48
#define FILE_PLACE_MASK ((1ull << FILE_PLACE_BITS) - 1)

struct file_row {
	uint64_t hash; /* of path; 0: free */
	uint32_t ready;
	uint32_t reserved;
	char path[496];
};

/* The row of a path, which is added; -1: no room. Row 0 is never used. AS-Safe. */
int file_table_add(struct file_row *rows, uint32_t count, const char *path);

#endif
