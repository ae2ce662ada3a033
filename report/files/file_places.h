/* SPDX-License-Identifier: MIT */
/*
 * file_places.h - names for the locations of records that outlive their processes: file << 48 |
 * address in that file, as record/file_table.h has it.
 *
 * Symbols come from files, each opened once, when it is asked for.
 */
#ifndef REPORT_FILES_FILE_PLACES_H
#define REPORT_FILES_FILE_PLACES_H

#include "report/dwarf/symbols.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct file_places;

/* The path of a row, which a target wrote, ended and at most n bytes; false: there is none. */
typedef bool (*file_places_path)(const void *table, uint32_t row, char *path, size_t n);

/*
 * The table outlives it. *out is released by file_places_close(), which takes NULL. 0 or -ENOMEM.
 */
int file_places_open(file_places_path path_of, const void *table, uint32_t rows,
		     struct file_places **out);
void file_places_close(struct file_places *p);
/* Files are named as this process has them; 0: as the caller does. */
void file_places_set_root(struct file_places *p, pid_t root);
struct kept_files;
/* Files that are open already, which outlive it; NULL: none. */
void file_places_set_kept(struct file_places *p, const struct kept_files *kept);

/* The symbols of the file of a location, and its address there; NULL: no file, or not readable. */
struct symbols *file_places_symbols(struct file_places *p, uint64_t at, uint64_t *address);
/* The path of the file of a location, cleaned; "": none. */
void file_places_name(const struct file_places *p, uint64_t at, char *path, size_t n);

/* after: the location is behind the instruction that is meant. All members are valid. */
void file_places_find(struct file_places *p, uint64_t at, bool after, struct place *out);
/* The same with the functions inlined there, innermost first; at least 1, at most n. */
size_t file_places_frames(struct file_places *p, uint64_t at, bool after, struct place *out,
			  size_t n);

#endif
