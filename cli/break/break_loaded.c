/* SPDX-License-Identifier: MIT */
/* break_loaded.c - see break_loaded.h. */
#include "cli/break/break_loaded.h"

#include "base/grow.h"
#include "base/hash.h"
#include "base/maps.h"
#include "report/code/code_sites.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* True: it was known. */
static bool note_file(struct break_loaded *l, uint64_t file)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->known[i] == file)
			return true;
	if (!grow_room(l->known, l->count, l->room))
		l->known[l->count++] = file;
	return false;
}

/* It cannot be decided without memory: an instruction, or a symbol with its version. */
static bool needs_process(const char *location)
{
	return strpbrk(location, "+@") || isdigit((unsigned char)location[0]);
}

/* A function that the process chooses among several is one that the file has. */
static bool files_have(struct symbols_files *files, const char *location)
{
	struct code_sites sites = { .all_copies = true };
	char why[1];
	bool has = !code_sites_find(symbols_files_symbols(files), location, &sites, why, 0) ||
		   sites.unresolved;

	code_sites_free(&sites);
	return has;
}

bool break_loaded_may_have(struct break_loaded *l, pid_t pid, const char *location)
{
	struct symbols_files *files = NULL;
	bool may_have = needs_process(location);
	char name[MAPS_NAME];
	struct maps maps;
	size_t added = 0;

	if (symbols_files_open(NULL, &files))
		return true;
	maps_open(&maps, pid, name, sizeof(name));
	for (const struct maps_row *row; (row = maps_next(&maps));) {
		struct symbols_mapping m = { row->start, row->end, row->offset, row->inode, name };
		uint64_t file = hash_add(hash_add(HASH_START, row->inode),
					 (uint64_t)row->major << 32 | row->minor);
		struct symbols_move unused;

		if (row->mode[2] != 'x' || name[0] != '/' || note_file(l, file))
			continue;
		/* Such as one in another root directory. */
		if (symbols_files_move(files, &m, NULL, &unused))
			may_have = true;
		added++;
	}
	maps_close(&maps);
	may_have = may_have || (added && files_have(files, location));
	symbols_files_close(files);
	return may_have;
}

void break_loaded_free(struct break_loaded *l)
{
	free(l->known);
	*l = (struct break_loaded){ .count = 0 };
}
