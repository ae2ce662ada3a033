/* SPDX-License-Identifier: MIT */
/* file_places.c - see file_places.h. */
#include "report/files/file_places.h"

#include "record/file_table.h"
#include "report/files/files.h"
#include "report/safe/clean.h"
#include "report/safe/kept_files.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct opened {
	struct symbols *symbols;
	uint64_t bias;
	bool is_tried;
};

struct file_places {
	file_places_path path_of;
	const void *table;
	uint32_t rows;
	pid_t root; /* as of files_open() */
	const struct kept_files *kept;
	struct opened opened[];
};

int file_places_open(file_places_path path_of, const void *table, uint32_t rows,
		     struct file_places **out)
{
	struct file_places *p = calloc(1, sizeof(*p) + rows * sizeof(p->opened[0]));

	if (!p)
		return -ENOMEM;
	p->path_of = path_of;
	p->table = table;
	p->rows = rows;
	*out = p;
	return 0;
}

void file_places_close(struct file_places *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; i < p->rows; i++)
		symbols_close(p->opened[i].symbols);
	free(p);
}

void file_places_set_root(struct file_places *p, pid_t root)
{
	p->root = root;
}

void file_places_set_kept(struct file_places *p, const struct kept_files *kept)
{
	p->kept = kept;
}

static uint32_t row_of(const struct file_places *p, uint64_t at)
{
	uint64_t row = at >> FILE_PLACE_BITS;

	return row < p->rows ? (uint32_t)row : 0;
}

void file_places_name(const struct file_places *p, uint64_t at, char *path, size_t n)
{
	uint32_t row = row_of(p, at);

	if (!row || !p->path_of(p->table, row, path, n))
		*path = '\0';
	clean_text(path);
}

struct symbols *file_places_symbols(struct file_places *p, uint64_t at, uint64_t *address)
{
	struct opened *opened = &p->opened[row_of(p, at)];
	char path[PATH_MAX];

	if (opened == p->opened)
		return NULL;
	if (!opened->is_tried) {
		file_places_name(p, at, path, sizeof(path));
		if (*path) {
			files_open_kept(path, kept_files_fd(p->kept, path), p->root,
					&opened->symbols, &opened->bias);
			opened->is_tried = true;
		}
	}
	*address = opened->bias + (at & FILE_PLACE_MASK);
	return opened->symbols;
}

/* The agent is a file in memory that no reader can open: its name is enough to leave it out. */
static void place_without_symbols(const struct file_places *p, uint64_t at, struct place *out)
{
	char path[PATH_MAX];

	memset(out, 0, sizeof(*out));
	file_places_name(p, at, path, sizeof(path));
	if (symbols_is_agent(basename(path)))
		out->module = SYMBOLS_AGENT;
}

void file_places_find(struct file_places *p, uint64_t at, bool after, struct place *out)
{
	uint64_t back = after ? 1 : 0;
	uint64_t address;
	struct symbols *s = file_places_symbols(p, at, &address);

	if (!s) {
		place_without_symbols(p, at, out);
		return;
	}
	memset(out, 0, sizeof(*out));
	symbols_place(s, address - back, out);
	out->offset += out->function ? back : 0;
	out->module_offset += out->module ? back : 0;
}

size_t file_places_frames(struct file_places *p, uint64_t at, bool after, struct place *out,
			  size_t n)
{
	uint64_t back = after ? 1 : 0;
	uint64_t address;
	struct symbols *s = file_places_symbols(p, at, &address);

	if (!s) {
		place_without_symbols(p, at, out);
		return 1;
	}
	size_t count = symbols_frames(s, address - back, out, n);
	for (size_t i = 0; i < count; i++) {
		bool is_outer = i + 1 == count;

		out[i].offset += is_outer && out[i].function ? back : 0;
		out[i].module_offset += out[i].module ? back : 0;
	}
	return count;
}
