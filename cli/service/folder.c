/* SPDX-License-Identifier: MIT */
/* folder.c - see folder.h. */
#include "cli/service/folder.h"

#include "cli/message.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAME_BYTES 48
#define SERVED "served"

static int make_folders(const char *folder)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s", folder) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = 0;
		if (mkdir(path, 0755) && errno != EEXIST)
			return -errno;
	}
	return mkdir(path, 0700) && errno != EEXIST ? -errno : 0;
}

/* What is there is done with the rights of this command. */
static int check_owner(const struct folder *f)
{
	struct stat st;

	if (fstat(f->fd, &st))
		return cli_wrong(f->command, "cannot read %s: %s", f->path, strerror(errno));
	if (st.st_uid == geteuid() && !(st.st_mode & 022))
		return 0;
	return cli_wrong(f->command,
			 "cannot use %s: it belongs to another user, or others can write to it; "
			 "give --state DIR with a folder of your own",
			 f->path);
}

int folder_open(const char *command, const char *path, bool makes, struct folder *out)
{
	int err = 0;

	*out = (struct folder){ .command = command, .path = path, .fd = -1, .lock = -1 };
	if (!path[0])
		return cli_wrong(command, "--state is empty: give a folder");
	if (makes)
		err = make_folders(path);
	if (!err)
		out->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (out->fd < 0 && !err)
		err = -errno;
	if (err == -ENOENT && !makes)
		return 0;
	if (err)
		return cli_wrong(command, "cannot use %s: %s; %sgive --state DIR", path,
				 strerror(-err), geteuid() ? "run as root, or " : "");
	int status = check_owner(out);
	if (status)
		folder_close(out);
	return status;
}

void folder_close(struct folder *f)
{
	if (f->lock >= 0)
		close(f->lock);
	if (f->fd >= 0)
		close(f->fd);
	f->fd = f->lock = -1;
}

/* The lock ends with the process, no matter how it ends. */
static int lock_file(int fd, int command, struct flock *lock)
{
	*lock = (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET };
	if (!fcntl(fd, command, lock))
		return 0;
	return errno == EACCES ? -EAGAIN : -errno;
}

int folder_lock_file(int fd, int64_t step_ns, int steps)
{
	const struct timespec step = { 0, step_ns };
	struct flock lock;
	int err = -EAGAIN;

	for (int i = 0; i < steps && err == -EAGAIN; i++) {
		err = lock_file(fd, F_OFD_SETLK, &lock);
		if (err == -EAGAIN)
			nanosleep(&step, NULL);
	}
	return err;
}

int folder_file(const struct folder *f, const char *name, int flags)
{
	return openat(f->fd, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
}

bool folder_is_served(const struct folder *f)
{
	struct flock lock;
	int fd = f->fd < 0 ? -1 : folder_file(f, SERVED, O_RDWR);
	bool is_served = fd >= 0 && !lock_file(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;

	if (fd >= 0)
		close(fd);
	return is_served;
}

int folder_serve(struct folder *f)
{
	struct flock lock;

	f->lock = folder_file(f, SERVED, O_RDWR | O_CREAT);
	return f->lock < 0 ? -errno : lock_file(f->lock, F_OFD_SETLK, &lock);
}

static int write_all(int fd, const char *text, size_t n)
{
	while (n) {
		ssize_t done = write(fd, text, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done ? -errno : -ENOSPC;
		text += done;
		n -= (size_t)done;
	}
	return 0;
}

int folder_write(const struct folder *f, const char *name, const json_t *json, bool is_new)
{
	static unsigned int number;
	char left[NAME_BYTES];
	char *text = json_dumps(json, JSON_COMPACT);

	if (!text)
		return -ENOMEM;
	snprintf(left, sizeof(left), ".new.%d.%u", getpid(), number++);
	int fd = folder_file(f, left, O_WRONLY | O_CREAT | O_EXCL);
	int err = fd < 0 ? -errno : write_all(fd, text, strlen(text));
	/* What a client adds must be there after a crash of the machine; counters need not. */
	if (!err && is_new && fsync(fd))
		err = -errno;
	if (!err &&
	    (is_new ? linkat(f->fd, left, f->fd, name, 0) : renameat(f->fd, left, f->fd, name)))
		err = -errno;
	if (fd >= 0)
		close(fd);
	if (fd >= 0 && (err || is_new))
		unlinkat(f->fd, left, 0);
	free(text);
	return err;
}

json_t *folder_read(const struct folder *f, const char *name, size_t most, int *err)
{
	char *text = malloc(most);
	int fd = text ? folder_file(f, name, O_RDONLY) : -1;
	struct stat st;
	ssize_t n = -1;
	json_t *j = NULL;

	*err = !text ? -ENOMEM : fd < 0 ? -errno : 0;
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode))
		n = read(fd, text, most);
	if (n >= 0 && n < (ssize_t)most)
		j = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
	if (fd >= 0)
		close(fd);
	if (!j && !*err)
		*err = -EBADMSG;
	free(text);
	return j;
}
