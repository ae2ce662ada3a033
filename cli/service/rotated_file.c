/* SPDX-License-Identifier: MIT */
/* rotated_file.c - see rotated_file.h. */
#include "cli/service/rotated_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

void rotated_file_open(struct rotated_file *f, const char *path, uint64_t rotate_bytes,
		       uint64_t keep)
{
	*f = (struct rotated_file){
		.path = path, .fd = -1, .rotate_bytes = rotate_bytes, .keep = keep
	};
}

void rotated_file_close(struct rotated_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

/* Not a link, which would lead elsewhere, and nothing that a write could wait for. */
static int open_file(struct rotated_file *f)
{
	struct stat st;
	int fd = open(f->path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
		      0600);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	f->fd = fd;
	f->size = (uint64_t)st.st_size;
	return 0;
}

static void name_of(const struct rotated_file *f, uint64_t number, char *name)
{
	if (number)
		snprintf(name, PATH_MAX, "%s.%" PRIu64, f->path, number);
	else
		snprintf(name, PATH_MAX, "%s", f->path);
}

/* The oldest one is replaced. Where a file cannot be renamed, the lines stay in this one. */
static void rotate(struct rotated_file *f)
{
	char from[PATH_MAX];
	char to[PATH_MAX];

	for (uint64_t i = f->keep; i--;) {
		name_of(f, i, from);
		name_of(f, i + 1, to);
		if (rename(from, to) && !i)
			return;
	}
	if (!f->keep && unlink(f->path))
		return;
	rotated_file_close(f);
}

static int write_line(struct rotated_file *f, const char *line, size_t n)
{
	const struct iovec parts[] = { { (void *)(uintptr_t)line, n },
				       { (void *)(uintptr_t) "\n", 1 } };
	ssize_t done;

	do
		done = writev(f->fd, parts, 2);
	while (done < 0 && errno == EINTR);
	if (done == (ssize_t)n + 1) {
		f->size += n + 1;
		return 0;
	}
	int err = done < 0 ? -errno : -ENOSPC;
	/* A part of a line would break the next one. */
	if (done > 0 && ftruncate(f->fd, (off_t)f->size))
		rotated_file_close(f);
	return err;
}

int rotated_file_send(struct rotated_file *f, const char *line, size_t n)
{
	if (f->fd >= 0 && f->rotate_bytes && f->size && f->size + n + 1 > f->rotate_bytes)
		rotate(f);
	int err = f->fd < 0 ? open_file(f) : 0;
	if (!err && f->rotate_bytes && f->size && f->size + n + 1 > f->rotate_bytes) {
		/* That of an earlier collector. */
		rotate(f);
		err = f->fd < 0 ? open_file(f) : 0;
	}
	return err ? err : write_line(f, line, n);
}

void rotated_file_look(struct rotated_file *f)
{
	struct stat mine;
	struct stat there;

	if (f->fd < 0 || fstat(f->fd, &mine))
		return;
	if (lstat(f->path, &there) || there.st_ino != mine.st_ino || there.st_dev != mine.st_dev)
		rotated_file_close(f);
	else
		f->size = (uint64_t)there.st_size;
}
