/* SPDX-License-Identifier: MIT */
/* uprobe_vector.c - see uprobe_vector.h. The bytes are those of the file: the kernel reads these. */
#include "event/uprobe/uprobe_vector.h"

#ifdef __x86_64__
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "code/insn/insn.h"
#include "code/insn/insn_uprobe.h"

int uprobe_any_vector(const struct uprobe_site *sites, size_t count)
{
	int fd = -1;
	int found = 0;

	for (size_t i = 0; !found && i < count; i++) {
		uint8_t bytes[INSN_LENGTH_MAX];

		if (!i || !code_file_is_same(&sites[i].file, &sites[i - 1].file)) {
			if (fd >= 0)
				close(fd);
			fd = open(sites[i].file.path, O_RDONLY | O_CLOEXEC);
			if (fd < 0)
				return -errno;
		}
		ssize_t n = pread(fd, bytes, sizeof(bytes), (off_t)sites[i].offset);
		found = n < 0 ? -errno :
				insn_uprobe_refusal_x86_64(bytes, (size_t)n) == INSN_UPROBE_VECTOR;
	}
	if (fd >= 0)
		close(fd);
	return found;
}
#else
int uprobe_any_vector(const struct uprobe_site *sites, size_t count)
{
	(void)sites;
	(void)count;
	return 0;
}
#endif
