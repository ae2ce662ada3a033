/* SPDX-License-Identifier: MIT */
/*
 * mapped_names.h - names of processes that may have ended, from the files that they had mapped.
 *
 * A file is opened as soon as its mapping is known, since a test of configure removes the program
 * at once. What several processes have mapped is read once.
 */
#ifndef CLI_LAUNCH_MAPPED_NAMES_H
#define CLI_LAUNCH_MAPPED_NAMES_H

#include "host/mappings.h"
#include "report/dwarf/symbols.h"

#include <limits.h>

#define MAPPED_NAMES_FIXED 32 /* programs that are not relocatable, which are kept apart */

struct mapped_names {
	const struct symbols *first; /* its program is called as there; NULL: none */
	struct kept_files *kept;     /* NULL until there is one, or no memory */
	uint64_t version;	     /* of the mappings, when files were opened last */
	struct {
		uint64_t inode; /* of the program; 0: relocatable ones */
		struct symbols_files *files;
	} sets[1 + MAPPED_NAMES_FIXED];
	size_t set_count;
	uint64_t without_file;	/* processes with a file that could not be read */
	char missing[PATH_MAX]; /* the first of these files */
};

/* Opens what was mapped since the last call. */
void mapped_names_keep(struct mapped_names *n, const struct mappings *m);
/*
 * Closed before mapped_names_close(). NULL: no memory, no room, or what the process had mapped is
 * not known for sure.
 */
struct symbols *mapped_names_open(struct mapped_names *n, const struct mapped_process *p);
void mapped_names_close(struct mapped_names *n);

#endif
