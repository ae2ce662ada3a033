/* SPDX-License-Identifier: MIT */
/* own_fd.c - see own_fd.h. */
#include "base/general_regs.h"

#include "base/own_fd.h"

#include <errno.h>
#include <fcntl.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "base/sys.h"
#include "base/trap_path.h"

int own_fd_lowest;
AFTER_FORK const struct own_fd_table *own_fd_table;

TRAP_PATH int own_fd_up(int fd)
{
	const struct own_fd_table *t = atomic_get(&own_fd_table);

	if (fd < 0 || !own_fd_lowest)
		return fd;
	if (t && t->is_here())
		return fd | OWN_FD_FAR;
	int high = (int)sys3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, own_fd_lowest);
	if (high < 0)
		return fd; /* the limit of descriptors is low: better there than nowhere */
	sys_close(fd);
	return high;
}

TRAP_PATH static int in_table(const struct own_fd_table *t, const struct own_fd_call *call)
{
	const int fd = (int)t->make(call);

	return fd < 0 ? fd : fd | OWN_FD_FAR;
}

/* Where the table has just gone it is the program's, as without. */
TRAP_PATH int own_fd_keep(long number, long a, long b, long c, long d, long e)
{
	const struct own_fd_table *t = atomic_get(&own_fd_table);
	const struct own_fd_call call = { number, { a, b, c, d, e } };
	int fd = -EBADF;

	if (t)
		fd = in_table(t, &call);
	return fd != -EBADF ? fd : own_fd_up((int)sys5(number, a, b, c, d, e));
}

TRAP_PATH int own_fd_open(const char *path, int flags)
{
	const struct own_fd_table *t = atomic_get(&own_fd_table);

	if (t && t->is_spared())
		return (int)sys4(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0);
	return own_fd_keep(SYS_openat, AT_FDCWD, (long)(uintptr_t)path, flags | O_CLOEXEC, 0, 0);
}

TRAP_PATH long own_fd_run(long (*run)(void *arg), void *arg)
{
	const struct own_fd_table *t = atomic_get(&own_fd_table);

	return t ? t->call(run, arg) : run(arg);
}

TRAP_PATH long own_fd_far(long number, int fd, long b, long c, long d, long e)
{
	const struct own_fd_table *t = atomic_get(&own_fd_table);
	const struct own_fd_call call = { number, { fd & ~OWN_FD_FAR, b, c, d, e } };

	return t ? t->make(&call) : -EBADF;
}

TRAP_PATH long own_fd_far_map(long address, long bytes, long protection, long flags, int fd,
			      long offset)
{
	const struct own_fd_table *t = atomic_get(&own_fd_table);
	const struct own_fd_call call = {
		SYS_mmap, { address, bytes, protection, flags, fd & ~OWN_FD_FAR, offset }
	};

	return t ? t->make(&call) : -EBADF;
}
