/* SPDX-License-Identifier: MIT */
/* kept_fd.c - see kept_fd.h. */
#include "code/kept_fd.h"

#include <sys/stat.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "base/own_fd.h"
#include "base/sys.h"

void kept_fd_take(struct kept_fd *kept, int fd)
{
	struct stat st;

	*kept = (struct kept_fd)KEPT_FD_NONE;
	if (fd < 0 || sys_of_fd(SYS_fstat, fd, &st, 0, 0, 0))
		return;
	*kept = (struct kept_fd){ fd, st.st_dev, st.st_ino };
}

AT_FORK int kept_fd_is_ours(const struct kept_fd *kept)
{
	struct stat st;

	/* In a forked child there is no table of Trapline. */
	if (kept->fd >= OWN_FD_FAR && !atomic_get(&own_fd_table))
		return 0;
	return kept->fd >= 0 && !sys_of_fd(SYS_fstat, kept->fd, &st, 0, 0, 0) &&
	       st.st_dev == kept->device && st.st_ino == kept->inode;
}

AT_FORK void kept_fd_close(struct kept_fd *kept)
{
	if (kept_fd_is_ours(kept))
		sys_close(kept->fd);
	/* A forked child shares the page until one of both writes there. */
	if (kept->fd >= 0)
		*kept = (struct kept_fd)KEPT_FD_NONE;
}
