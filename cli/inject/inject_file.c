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

/* Programs and shells use lower ones by number. The limit of a process may be below. */
#define LOWEST_HIGH 900
#define HINDERING (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)

/* Linux: include/uapi/linux/pidfd.h, since 6.9. */
#define PIDFD_OF_THREAD O_EXCL

static void make_path(char path[64], const struct held_thread *t, int fd)
{
	snprintf(path, 64, "/proc/%d/task/%d/fd/%d", t->pid, t->tid, fd);
}

static bool has_name(const char *path, const char *name)
{
	char found[256];
	char wanted[256];

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
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return seals >= 0 && !(seals & HINDERING) && !fstat(fd, &st) && S_ISREG(st.st_mode) &&
	       !st.st_nlink && !st.st_size && has_name(path, name) &&
	       (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
}

/* A thread may have another table than its process has. Or -errno. */
static int copy_of_table(const struct held_thread *t, int fd)
{
	const bool is_other = t->is_loader;
	const int of = (int)syscall(SYS_pidfd_open, is_other ? t->tid : t->pid,
				    is_other ? PIDFD_OF_THREAD : 0);
	int copy = of < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, of, fd, 0);
	const int err = -errno;
	char path[64];

	if (of >= 0)
		close(of);
	if (of >= 0 || !is_other)
		return copy < 0 ? err : copy;
	make_path(path, t, fd);
	copy = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return copy < 0 ? -errno : copy;
}

int file_copy(const struct held_thread *t, int fd, const char *name)
{
	int copy = copy_of_table(t, fd);

	if (copy < 0 || is_new_file(copy, name))
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
	char path[64];

	make_path(path, t, fd);
	if (has_name(path, name))
		held_syscall(t, SYS_close, args);
}

int file_move_up(struct held_thread *t, int fd, const char *name)
{
	const uint64_t copy[6] = { (uint64_t)fd, F_DUPFD_CLOEXEC, LOWEST_HIGH };
	const long high = held_syscall(t, SYS_fcntl, copy);

	if (high < LOWEST_HIGH)
		return fd;
	file_close(t, fd, name);
	return (int)high;
}
