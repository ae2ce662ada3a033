/* SPDX-License-Identifier: MIT */
/* own_fd.c - see own_fd.h. */
#include "base/own_fd.h"

#include <fcntl.h>

#include "base/sys.h"
#include "base/trap_path.h"

int own_fd_lowest;

TRAP_PATH int own_fd_up(int fd)
{
	if (fd < 0 || !own_fd_lowest)
		return fd;
	int high = (int)sys3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, own_fd_lowest);
	if (high < 0)
		return fd; /* the limit of descriptors is low: better there than nowhere */
	sys_close(fd);
	return high;
}

TRAP_PATH int own_fd_open(const char *path, int flags)
{
	return own_fd_up((int)sys4(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0));
}
