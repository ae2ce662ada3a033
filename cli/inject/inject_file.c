/* SPDX-License-Identifier: MIT */
/* inject_file.c - see inject_file.h. */
#include "cli/inject/inject_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/inject/inject_thread.h"

#define HINDERING (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)

static bool has_name(pid_t pid, int fd, const char *name)
{
	char path[64];
	char found[256];
	char wanted[256];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	snprintf(wanted, sizeof(wanted), "/memfd:%s (deleted)", name);
	ssize_t n = readlink(path, found, sizeof(found) - 1);
	found[n > 0 ? n : 0] = '\0';
	return !strcmp(found, wanted);
}

/* Only files in memory have seals; no other program has one with this name. */
static bool is_new_file(int fd, const char *name)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && !(seals & HINDERING) && !fstat(fd, &st) && S_ISREG(st.st_mode) &&
	       !st.st_nlink && !st.st_size && has_name(getpid(), fd, name) &&
	       (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
}

int file_copy(pid_t pid, int fd, const char *name)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0);

	if (process < 0)
		return -errno;
	int copy = (int)syscall(SYS_pidfd_getfd, process, fd, 0);
	int err = copy < 0 ? -errno : 0;
	close(process);
	if (err)
		return err;
	if (is_new_file(copy, name))
		return copy;
	close(copy);
	return -EBADF;
}

int file_seal(int fd, bool is_written)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (is_written ? F_SEAL_WRITE : 0);

	return fcntl(fd, F_ADD_SEALS, seals) ? -errno : 0;
}

void file_close(struct held_thread *t, int fd, const char *name)
{
	const uint64_t args[6] = { (uint64_t)fd };

	if (has_name(t->pid, fd, name))
		held_syscall(t, SYS_close, args);
}
