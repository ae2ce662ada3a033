/* SPDX-License-Identifier: MIT */
/* kept_fd.c - see kept_fd.h. */
#include "code/kept_fd.h"

#include <sys/stat.h>

#include "base/sys.h"

void kept_fd_take(struct kept_fd *kept, int fd)
{
	struct stat st;

	*kept = (struct kept_fd)KEPT_FD_NONE;
	if (fd < 0 || sys_of_fd(SYS_fstat, fd, &st, 0, 0, 0))
		return;
	*kept = (struct kept_fd){ fd, st.st_dev, st.st_ino };
}

int kept_fd_is_ours(const struct kept_fd *kept)
{
	struct stat st;

	return kept->fd >= 0 && !sys_of_fd(SYS_fstat, kept->fd, &st, 0, 0, 0) &&
	       st.st_dev == kept->device && st.st_ino == kept->inode;
}

void kept_fd_close(struct kept_fd *kept)
{
	if (kept_fd_is_ours(kept))
		sys_close(kept->fd);
	/* A forked child shares the page until one of both writes there. */
	if (kept->fd >= 0)
		*kept = (struct kept_fd)KEPT_FD_NONE;
}
