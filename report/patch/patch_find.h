/* SPDX-License-Identifier: MIT */
/*
 * patch_find.h - what the names in an object of replacements mean in a running process, and why one
 * of them cannot be replaced.
 */
#ifndef REPORT_PATCH_PATCH_FIND_H
#define REPORT_PATCH_PATCH_FIND_H

#include "report/dwarf/symbols.h"

#include <stdbool.h>

#define PATCH_FOUND_PARTS 3

struct patch_found_part {
	uint64_t address;
	uint64_t size;
};

struct patch_found {
	uint64_t address;
	uint64_t size;
	const char *module; /* the file name of its object */
	/*
	 * Code of it that lies elsewhere, `name.cold`; those of others of its name are among them.
	 */
	struct patch_found_part parts[PATCH_FOUND_PARTS];
	size_t part_count;
	bool is_unseen; /* without debug information inlined copies of it cannot be seen */
	/* the names of all functions that have this code; empty: it is the only one */
	char folded[400];
	/* where the compiler put other copies, which stay old; empty: none known */
	char copies[400];
};

/*
 * A function to replace, as `name`, `file.c:name` or `object:name`. 0, or -errno with a reason in
 * why, one line.
 */
int patch_find_function(struct symbols *s, const char *name, struct patch_found *out, char *why,
			size_t n);

/* Data or a function to be reached by its name: likewise. */
int patch_find_old(struct symbols *s, const char *name, struct patch_found *out, char *why,
		   size_t n);

/* The build-id of the object that contains an address, in hexadecimal; empty: it has none. */
void patch_find_build_id(struct symbols *s, uint64_t address, char *text, size_t n);

/*
 * Does the file that names were read from differ from the object in memory? It was replaced on disk
 * since, so that addresses in it are wrong.
 */
bool patch_find_is_other_file(struct symbols *s, uint64_t address);

#endif
