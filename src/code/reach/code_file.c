/* SPDX-License-Identifier: MIT */
/* code_file.c - see code_file.h. */
#include "code/reach/code_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static int parse(const char *line, pid_t pid, struct code_file *out)
{
	unsigned int major;
	unsigned int minor;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %x:%x %" SCNu64, &out->start,
		   &out->end, &out->offset, &major, &minor, &out->inode) != 6)
		return -EINVAL;
	out->device = (uint64_t)major << 32 | minor;
	/* Right in any mount namespace, and for a file that was deleted or replaced. */
	snprintf(out->path, sizeof(out->path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid,
		 out->start, out->end);
	return 0;
}

int code_file_find(pid_t pid, uint64_t address, struct code_file *out)
{
	char path[64];
	char line[4352];
	int err = -ENOENT;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "re");
	if (!maps)
		return -errno;
	while (fgets(line, sizeof(line), maps)) {
		struct code_file file;

		if (parse(line, pid, &file) || address < file.start || address >= file.end)
			continue;
		if (file.inode) {
			*out = file;
			err = 0;
		}
		break;
	}
	fclose(maps);
	return err;
}
