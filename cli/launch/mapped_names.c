/* SPDX-License-Identifier: MIT */
/* mapped_names.c - see mapped_names.h. */
#include "cli/launch/mapped_names.h"

#include "report/safe/clean.h"
#include "report/safe/kept_files.h"

#include <stdio.h>
#include <stdlib.h>

/* The kernel loads what is relocatable above; a guess that is wrong takes a set for itself. */
#define FIXED_BELOW (1ull << 32)

void mapped_names_keep(struct mapped_names *n, const struct mappings *m)
{
	if (n->version == m->versions || (!n->kept && kept_files_open(0, &n->kept)))
		return;
	for (size_t i = 0; i < m->count; i++) {
		const struct mapped_process *p = &m->processes[i];

		for (size_t k = 0; p->version > n->version && k < p->count; k++)
			kept_files_add(n->kept, p->pid, p->files[k].path, p->files[k].inode);
	}
	n->version = m->versions;
}

static struct symbols_files *files_for(struct mapped_names *n, const struct mapped_process *p)
{
	uint64_t inode = 0;

	for (size_t i = 0; !inode && i < p->count; i++)
		inode = p->files[i].start < FIXED_BELOW ? p->files[i].inode : 0;
	for (size_t i = 0; i < n->set_count; i++)
		if (n->sets[i].inode == inode)
			return n->sets[i].files;
	if (n->set_count == sizeof(n->sets) / sizeof(n->sets[0]) ||
	    symbols_files_open(n->first, &n->sets[n->set_count].files))
		return NULL;
	n->sets[n->set_count].inode = inode;
	return n->sets[n->set_count++].files;
}

static void note_missing(struct mapped_names *n, const char *path)
{
	if (n->without_file++)
		return;
	snprintf(n->missing, sizeof(n->missing), "%s", path);
	clean_text(n->missing);
}

struct symbols *mapped_names_open(struct mapped_names *n, const struct mapped_process *p)
{
	struct symbols *symbols = NULL;
	const char *missing = NULL;
	size_t count = 0;

	if (!p || !p->count || p->is_unsure)
		return NULL;
	struct symbols_files *files = files_for(n, p);
	struct symbols_move *moves = files ? calloc(p->count, sizeof(*moves)) : NULL;
	for (size_t i = 0; moves && i < p->count; i++) {
		const struct mapped_file *file = &p->files[i];
		const struct symbols_mapping m = { .start = file->start,
						   .end = file->end,
						   .offset = file->offset,
						   .inode = file->inode,
						   .path = file->path };

		if (!symbols_files_move(files, &m, n->kept, &moves[count]))
			count++;
		else
			missing = file->path;
	}
	if (moves &&
	    symbols_open_moved(symbols_files_symbols(files), p->pid, moves, count, &symbols))
		symbols = NULL;
	free(moves);
	if (symbols && missing)
		note_missing(n, missing);
	return symbols;
}

void mapped_names_close(struct mapped_names *n)
{
	for (size_t i = 0; i < n->set_count; i++)
		symbols_files_close(n->sets[i].files);
	kept_files_close(n->kept);
	*n = (struct mapped_names){ 0 };
}
