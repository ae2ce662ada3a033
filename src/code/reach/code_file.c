/* SPDX-License-Identifier: MIT */
/* code_file.c - see code_file.h. */
#include "code/reach/code_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/lines.h"

static int parse(const char *line, pid_t pid, struct code_file *out, char permissions[5])
{
	unsigned int major;
	unsigned int minor;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &out->start,
		   &out->end, permissions, &out->offset, &major, &minor, &out->inode) != 7)
		return -EINVAL;
	out->device = (uint64_t)major << 32 | minor;
	/* Right in any mount namespace, and for a file that was deleted or replaced. */
	snprintf(out->path, sizeof(out->path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid,
		 out->start, out->end);
	return 0;
}

int code_file_each(pid_t pid, int (*each)(void *arg, const struct code_file *file, int is_code),
		   void *arg)
{
	char permissions[5] = "";
	char path[64];
	struct lines maps;
	int result = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	int err = lines_open(&maps, path);
	if (err)
		return err;
	for (char *line; !result && (line = lines_next(&maps));) {
		struct code_file file;

		if (!parse(line, pid, &file, permissions))
			result = each(arg, &file, permissions[2] == 'x');
	}
	lines_close(&maps);
	return result;
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
