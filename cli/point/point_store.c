/* SPDX-License-Identifier: MIT */
/* point_store.c - see point_store.h. */
#include "cli/point/point_store.h"

#include "base/grow.h"
#include "cli/message.h"
#include "cli/opts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES_MAX (64u << 10)
#define NAME_BYTES 48
#define LOCK_STEP_NS 10000000
#define LOCK_STEPS 500
#define ADD_TRIES 1000
#define LEFT_SECONDS 60
#define LAST_ID "last-id"
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
static int check_owner(const struct point_store *s)
{
	struct stat st;

	if (fstat(s->fd, &st))
		return cli_wrong(POINT_COMMAND, "cannot read %s: %s", s->folder, strerror(errno));
	if (st.st_uid == geteuid() && !(st.st_mode & 022))
		return 0;
	return cli_wrong(POINT_COMMAND,
			 "cannot use %s: it belongs to another user, or others can write to it; "
			 "give --state DIR with a folder of your own",
			 s->folder);
}

int point_store_open(const char *folder, bool makes, struct point_store *out)
{
	int err = 0;

	*out = (struct point_store){ .folder = folder ? folder : POINT_STORE_FOLDER,
				     .fd = -1,
				     .lock = -1 };
	if (!out->folder[0])
		return cli_wrong(POINT_COMMAND, "--state is empty: give a folder");
	if (makes)
		err = make_folders(out->folder);
	if (!err)
		out->fd = open(out->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (out->fd < 0 && !err)
		err = -errno;
	if (err == -ENOENT && !makes)
		return 0;
	if (err)
		return cli_wrong(POINT_COMMAND, "cannot use %s: %s; %sgive --state DIR",
				 out->folder, strerror(-err), geteuid() ? "run as root, or " : "");
	int status = check_owner(out);
	if (status)
		point_store_close(out);
	return status;
}

void point_store_close(struct point_store *s)
{
	if (s->lock >= 0)
		close(s->lock);
	if (s->fd >= 0)
		close(s->fd);
	s->fd = s->lock = -1;
}

/* The lock ends with the process, no matter how it ends. */
static int lock_file(int fd, int command, struct flock *lock)
{
	*lock = (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET };
	return fcntl(fd, command, lock) ? -errno : 0;
}

static int open_own(const struct point_store *s, const char *name, int flags)
{
	return openat(s->fd, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
}

bool point_store_is_served(const struct point_store *s)
{
	struct flock lock;
	int fd = s->fd < 0 ? -1 : open_own(s, SERVED, O_RDWR);
	bool is_served = fd >= 0 && !lock_file(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;

	if (fd >= 0)
		close(fd);
	return is_served;
}

int point_store_serve(struct point_store *s)
{
	struct flock lock;

	s->lock = open_own(s, SERVED, O_RDWR | O_CREAT);
	if (s->lock < 0)
		return cli_wrong(POINT_COMMAND, "cannot write in %s: %s", s->folder,
				 strerror(errno));
	if (!lock_file(s->lock, F_OFD_SETLK, &lock))
		return 0;
	return cli_wrong(POINT_COMMAND,
			 "cannot collect: another 'trapline point serve' does so for %s; end it, "
			 "or give another --state DIR",
			 s->folder);
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

/* A file that is there as a whole or not at all. */
static int write_json(const struct point_store *s, const char *name, const json_t *json,
		      bool is_new)
{
	static unsigned int number;
	char left[NAME_BYTES];
	char *text = json_dumps(json, JSON_COMPACT);

	if (!text)
		return -ENOMEM;
	snprintf(left, sizeof(left), ".new.%d.%u", getpid(), number++);
	int fd = open_own(s, left, O_WRONLY | O_CREAT | O_EXCL);
	int err = fd < 0 ? -errno : write_all(fd, text, strlen(text));
	/* A point must be there after a crash of the machine; its counters need not. */
	if (!err && is_new && fsync(fd))
		err = -errno;
	if (!err &&
	    (is_new ? linkat(s->fd, left, s->fd, name, 0) : renameat(s->fd, left, s->fd, name)))
		err = -errno;
	if (fd >= 0)
		close(fd);
	if (fd >= 0 && (err || is_new))
		unlinkat(s->fd, left, 0);
	free(text);
	return err;
}

static void name_of(uint64_t id, const char *kind, char *out)
{
	snprintf(out, NAME_BYTES, "%" PRIu64 ".%s", id, kind);
}

static json_t *read_json(const struct point_store *s, const char *name, int *err)
{
	char *text = malloc(FILE_BYTES_MAX);
	int fd = text ? open_own(s, name, O_RDONLY) : -1;
	struct stat st;
	ssize_t n = -1;
	json_t *j = NULL;

	*err = fd < 0 ? -errno : 0;
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode))
		n = read(fd, text, FILE_BYTES_MAX);
	if (n >= 0 && n < (ssize_t)FILE_BYTES_MAX)
		j = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
	if (fd >= 0)
		close(fd);
	if (!j && !*err)
		*err = -EBADMSG;
	free(text);
	return j;
}

/* The file of the last ID, locked. The descriptor or -errno. */
static int lock_ids(const struct point_store *s, uint64_t *last)
{
	const struct timespec step = { 0, LOCK_STEP_NS };
	unsigned long long number = 0;
	struct flock lock;
	char text[24] = "";
	int fd = open_own(s, LAST_ID, O_RDWR | O_CREAT);
	int err = fd < 0 ? -errno : -EAGAIN;

	/* A client that is stopped must not stop the others for ever. */
	for (int i = 0; fd >= 0 && i < LOCK_STEPS && err == -EAGAIN; i++) {
		err = lock_file(fd, F_OFD_SETLK, &lock);
		if (err == -EACCES)
			err = -EAGAIN;
		if (err == -EAGAIN)
			nanosleep(&step, NULL);
	}
	if (err) {
		if (fd >= 0)
			close(fd);
		return err;
	}
	if (pread(fd, text, sizeof(text) - 1, 0) > 0 && !opts_number(text, 10, &number))
		*last = number;
	return fd;
}

/* Written before the point is: an ID may be left out, and is never given twice. */
int point_store_add(const struct point_store *s, json_t *point, uint64_t *id)
{
	char name[NAME_BYTES];
	char text[24];
	uint64_t last = 0;
	int fd = lock_ids(s, &last);
	int err = fd < 0 ? fd : -EEXIST;

	for (int i = 0; i < ADD_TRIES && err == -EEXIST; i++) {
		int n = snprintf(text, sizeof(text), "%" PRIu64, ++last);
		name_of(last, "point", name);
		json_object_set_new(point, "id", json_integer((json_int_t)last));
		err = pwrite(fd, text, (size_t)n, 0) == n ? 0 : -errno;
		if (!err)
			err = write_json(s, name, point, true);
	}
	if (fd >= 0)
		close(fd);
	if (!err && fsync(s->fd))
		err = -errno;
	*id = last;
	return err;
}

/* `7.point` */
static bool id_of(const char *name, const char *kind, uint64_t *id)
{
	size_t digits = strspn(name, "0123456789");
	unsigned long long number;
	char text[24];

	snprintf(text, sizeof(text), "%.*s", (int)digits, name);
	if (!digits || digits >= sizeof(text) || name[digits] != '.' ||
	    strcmp(name + digits + 1, kind) != 0 || opts_number(text, 10, &number))
		return false;
	*id = number;
	return true;
}

static DIR *open_folder(const struct point_store *s)
{
	int fd = openat(s->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d && fd >= 0)
		close(fd);
	return d;
}

static int id_compare(const void *a, const void *b)
{
	const uint64_t *x = a;
	const uint64_t *y = b;

	return (*x > *y) - (*x < *y);
}

int point_store_list(const struct point_store *s, uint64_t **ids, size_t *count)
{
	size_t capacity = 0;
	uint64_t *list = NULL;
	size_t n = 0;
	uint64_t id;
	int err = 0;
	DIR *d = s->fd < 0 ? NULL : open_folder(s);

	if (s->fd >= 0 && !d)
		return -errno;
	for (struct dirent *e; d && !err && (e = readdir(d));) {
		if (!id_of(e->d_name, "point", &id))
			continue;
		err = grow_room(list, n, capacity);
		if (!err)
			list[n++] = id;
	}
	if (d)
		closedir(d);
	if (n)
		qsort(list, n, sizeof(*list), id_compare);
	*ids = list;
	*count = n;
	return err;
}

int point_store_read(const struct point_store *s, uint64_t id, struct point *out, char *why,
		     size_t n)
{
	char name[NAME_BYTES];
	int err;

	name_of(id, "point", name);
	json_t *j = read_json(s, name, &err);
	if (!j) {
		snprintf(why, n, "cannot read %s/%s: %s", s->folder, name,
			 err == -EBADMSG ? "trapline did not write it" : strerror(-err));
		return err;
	}
	char cause[200] = "";
	if (point_from_json(j, out, cause, sizeof(cause))) {
		snprintf(why, n, "cannot read %s/%s: %s", s->folder, name, cause);
		return -EBADMSG;
	}
	out->id = id;
	return 0;
}

int point_store_remove(const struct point_store *s, uint64_t id)
{
	char name[NAME_BYTES];

	name_of(id, "point", name);
	int err = s->fd < 0 ? -ENOENT : unlinkat(s->fd, name, 0) ? -errno : 0;
	name_of(id, "status", name);
	if (!err)
		unlinkat(s->fd, name, 0);
	return err;
}

void point_store_read_status(const struct point_store *s, uint64_t id, struct point_status *out)
{
	char name[NAME_BYTES];
	int err;

	name_of(id, "status", name);
	json_t *j = read_json(s, name, &err);
	point_status_from_json(j, out);
	json_decref(j);
}

int point_store_write_status(const struct point_store *s, uint64_t id,
			     const struct point_status *status)
{
	char name[NAME_BYTES];
	json_t *j = point_status_to_json(status);

	name_of(id, "status", name);
	int err = j ? write_json(s, name, j, false) : -ENOMEM;
	json_decref(j);
	return err;
}

/* A file that a client makes at this moment is young. */
static bool is_left(const struct point_store *s, const char *name)
{
	struct stat st;

	return !strncmp(name, ".new.", 5) && !fstatat(s->fd, name, &st, AT_SYMLINK_NOFOLLOW) &&
	       time(NULL) - st.st_mtime > LEFT_SECONDS;
}

static bool has_no_point(const struct point_store *s, const char *name)
{
	char point[NAME_BYTES];
	uint64_t id;

	if (!id_of(name, "status", &id))
		return false;
	name_of(id, "point", point);
	return faccessat(s->fd, point, F_OK, AT_SYMLINK_NOFOLLOW) && errno == ENOENT;
}

void point_store_clean(const struct point_store *s)
{
	DIR *d = open_folder(s);

	for (struct dirent *e; d && (e = readdir(d));)
		if (is_left(s, e->d_name) || has_no_point(s, e->d_name))
			unlinkat(s->fd, e->d_name, 0);
	if (d)
		closedir(d);
}
