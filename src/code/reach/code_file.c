/* SPDX-License-Identifier: MIT */
/* code_file.c - see code_file.h. */
#include "code/reach/code_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/maps.h"

static void fill(const struct maps_row *row, pid_t pid, struct code_file *out)
{
	out->start = row->start;
	out->end = row->end;
	out->offset = row->offset;
	out->inode = row->inode;
	out->device = (uint64_t)row->major << 32 | row->minor;
	/* Right in any mount namespace, and for a file that was deleted or replaced. */
	snprintf(out->path, sizeof(out->path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid,
		 out->start, out->end);
}

int code_file_each(pid_t pid, int (*each)(void *arg, const struct code_file *file, int is_code),
		   void *arg)
{
	struct maps maps;
	int result = 0;

	maps_open(&maps, pid, NULL, 0);
	for (const struct maps_row *row; !result && (row = maps_next(&maps));) {
		struct code_file file;

		fill(row, pid, &file);
		result = each(arg, &file, row->mode[2] == 'x');
	}
	const int err = maps_close(&maps);
	return result ? result : err;
}

struct wanted {
	uint64_t address;
	struct code_file *out;
};

static int take_if_wanted(void *arg, const struct code_file *file, int is_code)
{
	const struct wanted *w = arg;

	if (w->address < file->start || w->address >= file->end)
		return 0;
	if (!file->inode)
		return -ENOENT;
	*w->out = *file;
	return 1;
}

int code_file_find(pid_t pid, uint64_t address, struct code_file *out)
{
	struct wanted w = { address, out };
	int result = code_file_each(pid, take_if_wanted, &w);

	if (result > 0)
		return 0;
	return result ? result : -ENOENT;
}
