/* SPDX-License-Identifier: MIT */
/* memory_file.h - a file of memory for code, in a process that may be another's. */
#ifndef BASE_MEMORY_FILE_H
#define BASE_MEMORY_FILE_H

#include <errno.h>
#include <linux/memfd.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/own_fd.h"
#include "base/sys.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10
#endif

/*
 * Its descriptor, as own_fd_keep() has it, or -errno. -EFBIG: RLIMIT_FSIZE is less. The kernel
 * would send SIGXFSZ, which ends the process (inode_newsize_ok() of Linux). So it is read first.
 */
static inline int memory_file(const char *name, size_t bytes)
{
	const long text = (long)(uintptr_t)name;
	struct rlimit limit;

	if (!sys4(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) && limit.rlim_cur < bytes)
		return -EFBIG;
	int fd = own_fd_keep(SYS_memfd_create, text, MFD_CLOEXEC | MFD_EXEC, 0, 0, 0);
	/* Before v6.3 the flag is not known. */
	if (fd == -EINVAL)
		fd = own_fd_keep(SYS_memfd_create, text, MFD_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return fd;
	int err = (int)sys_of_fd(SYS_ftruncate, fd, bytes, 0, 0, 0);
	if (err) {
		sys_close(fd);
		return err;
	}
	return fd;
}

#endif
