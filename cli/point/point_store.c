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

int point_store_open(const char *folder, bool makes, struct folder *out)
{
	return folder_open(POINT_COMMAND, folder ? folder : POINT_STORE_FOLDER, makes, out);
}

int point_store_serve(struct folder *s)
{
	int err = folder_serve(s);

	if (err == -EAGAIN)
		return cli_wrong(POINT_COMMAND,
				 "cannot collect: another 'trapline point serve' does so for %s; "
				 "end it, or give another --state DIR",
				 s->path);
	return err ? cli_wrong(POINT_COMMAND, "cannot write in %s: %s", s->path, strerror(-err)) :
		     0;
}

static void name_of(uint64_t id, const char *kind, char *out)
{
	snprintf(out, NAME_BYTES, "%" PRIu64 ".%s", id, kind);
}

/* The file of the last ID, locked: a client that is stopped must not stop the others for ever. */
static int lock_ids(const struct folder *s, uint64_t *last)
{
	unsigned long long number = 0;
	char text[24] = "";
	int fd = folder_file(s, LAST_ID, O_RDWR | O_CREAT);
	int err = fd < 0 ? -errno : folder_lock_file(fd, LOCK_STEP_NS, LOCK_STEPS);

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
int point_store_add(const struct folder *s, json_t *point, uint64_t *id)
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
			err = folder_write(s, name, point, true);
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

static DIR *open_folder(const struct folder *s)
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

int point_store_list(const struct folder *s, uint64_t **ids, size_t *count)
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

int point_store_read(const struct folder *s, uint64_t id, struct point *out, char *why, size_t n)
{
	char name[NAME_BYTES];
	int err;

	name_of(id, "point", name);
	json_t *j = folder_read(s, name, FILE_BYTES_MAX, &err);
	if (!j) {
		snprintf(why, n, "cannot read %s/%s: %s", s->path, name,
			 err == -EBADMSG ? "trapline did not write it" : strerror(-err));
		return err;
	}
	char cause[200] = "";
	if (point_from_json(j, out, cause, sizeof(cause))) {
		snprintf(why, n, "cannot read %s/%s: %s", s->path, name, cause);
		return -EBADMSG;
	}
	out->id = id;
	return 0;
}

int point_store_remove(const struct folder *s, uint64_t id)
{
	char name[NAME_BYTES];

	name_of(id, "point", name);
	int err = s->fd < 0 ? -ENOENT : unlinkat(s->fd, name, 0) ? -errno : 0;
	name_of(id, "status", name);
	if (!err)
		unlinkat(s->fd, name, 0);
	return err;
}

void point_store_read_status(const struct folder *s, uint64_t id, struct point_status *out)
{
	char name[NAME_BYTES];
	int err;

	name_of(id, "status", name);
	json_t *j = folder_read(s, name, FILE_BYTES_MAX, &err);
	point_status_from_json(j, out);
	json_decref(j);
}

int point_store_write_status(const struct folder *s, uint64_t id, const struct point_status *status)
{
	char name[NAME_BYTES];
	json_t *j = point_status_to_json(status);

	name_of(id, "status", name);
	int err = j ? folder_write(s, name, j, false) : -ENOMEM;
	json_decref(j);
	return err;
}

/* A file that a client makes at this moment is young. */
static bool is_left(const struct folder *s, const char *name)
{
	struct stat st;

	return !strncmp(name, ".new.", 5) && !fstatat(s->fd, name, &st, AT_SYMLINK_NOFOLLOW) &&
	       time(NULL) - st.st_mtime > LEFT_SECONDS;
}

static bool has_no_point(const struct folder *s, const char *name)
{
	char point[NAME_BYTES];
	uint64_t id;

	if (!id_of(name, "status", &id))
		return false;
	name_of(id, "point", point);
	return faccessat(s->fd, point, F_OK, AT_SYMLINK_NOFOLLOW) && errno == ENOENT;
}

void point_store_clean(const struct folder *s)
{
	DIR *d = open_folder(s);

	for (struct dirent *e; d && (e = readdir(d));)
		if (is_left(s, e->d_name) || has_no_point(s, e->d_name))
			unlinkat(s->fd, e->d_name, 0);
	if (d)
		closedir(d);
}
