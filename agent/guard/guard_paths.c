/* SPDX-License-Identifier: MIT */
/*
 * guard_paths.c - functions of libc that give the kernel a path, or memory for what it reports of a
 * file.
 *
 * A path is read before the call: what is an error in that is found as in any other code, and has
 * access from then on. The memory of a result is opened and reported as in guard_io.c.
 */
/* Each function has its own name: open() is not open64(), although they do the same here. */
#undef _FILE_OFFSET_BITS

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/guard/guard.h"
#include "agent/guard/guard_next.h"

static void read_path(const char *path)
{
	const volatile char *at = path;

	if (path && heap_has(path))
		for (size_t i = 0; i < PATH_MAX && at[i]; i++)
			;
}

#define PATH(type, name, parameters, path, ...)  \
	GUARD(type, name, parameters)            \
	{                                        \
		NEXT(name);                      \
		read_path(path);                 \
		return next_##name(__VA_ARGS__); \
	}

/* The mode is there only for some flags; reading it where it is not does no harm. */
#define OPEN(name, parameters, path, ...)                     \
	GUARD(int, name, parameters)                          \
	{                                                     \
		va_list list;                                 \
                                                              \
		NEXT(name);                                   \
		va_start(list, flags);                        \
		mode_t mode = va_arg(list, mode_t);           \
		va_end(list);                                 \
		read_path(path);                              \
		return next_##name(__VA_ARGS__, flags, mode); \
	}

#define STAT(name, parameters, path, st, ...)                                                     \
	GUARD(int, name, parameters)                                                              \
	{                                                                                         \
		size_t fine = sizeof(*(st));                                                      \
                                                                                                  \
		NEXT(name);                                                                       \
		read_path(path);                                                                  \
		if (heap_has(st))                                                                 \
			fine = heap_open_for_call(st, sizeof(*(st)));                             \
		int result = next_##name(__VA_ARGS__);                                            \
		if (fine < sizeof(*(st))) {                                                       \
			heap_self.busy++;                                                         \
			heap_report_call(st, fine, result ? 0 : sizeof(*(st)), true, GUARD_HERE); \
			heap_self.busy--;                                                         \
		}                                                                                 \
		return result;                                                                    \
	}

/* clang-format off */
OPEN(open, (const char *path, int flags, ...), path, path)
OPEN(open64, (const char *path, int flags, ...), path, path)
OPEN(openat, (int fd, const char *path, int flags, ...), path, fd, path)
OPEN(openat64, (int fd, const char *path, int flags, ...), path, fd, path)
STAT(stat, (const char *path, struct stat *st), path, st, path, st)
STAT(stat64, (const char *path, struct stat64 *st), path, st, path, st)
STAT(lstat, (const char *path, struct stat *st), path, st, path, st)
STAT(lstat64, (const char *path, struct stat64 *st), path, st, path, st)
STAT(fstat, (int fd, struct stat *st), NULL, st, fd, st)
STAT(fstat64, (int fd, struct stat64 *st), NULL, st, fd, st)
STAT(fstatat, (int fd, const char *path, struct stat *st, int flags), path, st, fd, path, st, flags)
STAT(fstatat64, (int fd, const char *path, struct stat64 *st, int flags), path, st, fd, path, st, flags)
PATH(int, access, (const char *path, int mode), path, path, mode)
PATH(int, chdir, (const char *path), path, path)
PATH(int, chmod, (const char *path, mode_t mode), path, path, mode)
PATH(int, mkdir, (const char *path, mode_t mode), path, path, mode)
PATH(int, rmdir, (const char *path), path, path)
PATH(int, unlink, (const char *path), path, path)
PATH(DIR *, opendir, (const char *path), path, path)
PATH(FILE *, fopen, (const char *path, const char *mode), path, path, mode)
PATH(FILE *, fopen64, (const char *path, const char *mode), path, path, mode)
PATH(ssize_t, readlink, (const char *path, char *to, size_t n), path, path, to, n)
/* clang-format on */

GUARD(int, rename, (const char *from, const char *to))
{
	NEXT(rename);
	read_path(from);
	read_path(to);
	return next_rename(from, to);
}
