/* SPDX-License-Identifier: MIT */
/* kept_files.c - see kept_files.h. */
#include "report/safe/kept_files.h"

#include "base/maps.h"
#include "report/safe/target_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 256u
#define DELETED " (deleted)"

struct kept_file {
	char *path;
	uint64_t inode;
	int fd; /* -1: it could not be opened */
};

struct kept_files {
	pid_t pid;
	size_t count;
	size_t oldest;
	struct kept_file files[FILES_MAX];
};

static const struct kept_file *find_same(const struct kept_files *k, const char *path,
					 uint64_t inode)
{
	for (size_t i = 0; i < k->count; i++)
		if (k->files[i].inode == inode && !strcmp(k->files[i].path, path))
			return &k->files[i];
	return NULL;
}

/* By its name as a process has it. */
static int open_named(pid_t pid, const char *path)
{
	char name[PATH_MAX];

	target_file_name(target_file_is_foreign(pid) ? pid : 0, path, name, sizeof(name));
	return target_file_open(name);
}

/*
 * What is mapped, no matter what its name leads to by now; that needs rights. Else what the name
 * leads to.
 */
static int open_mapped(const struct kept_files *k, uint64_t start, uint64_t end, const char *path)
{
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, k->pid, start, end);
	int fd = target_file_open(name);
	return fd >= 0 ? fd : open_named(k->pid, path);
}

static void keep(struct kept_files *k, const struct maps_row *row, char *path)
{
	if (path[0] != '/' || row->mode[2] != 'x' || k->count == FILES_MAX)
		return;
	const size_t length = strlen(path);
	if (length > strlen(DELETED) && !strcmp(path + length - strlen(DELETED), DELETED))
		path[length - strlen(DELETED)] = '\0';
	if (find_same(k, path, row->inode))
		return;
	struct kept_file file = { .path = strdup(path), .inode = row->inode };
	if (!file.path)
		return;
	file.fd = open_mapped(k, row->start, row->end, path);
	k->files[k->count++] = file;
}

void kept_files_look(struct kept_files *k)
{
	struct maps maps;
	char name[MAPS_NAME];

	maps_open(&maps, k->pid, name, sizeof(name));
	for (const struct maps_row *row; (row = maps_next(&maps));)
		keep(k, row, name);
	maps_close(&maps);
}

int kept_files_open(pid_t pid, struct kept_files **out)
{
	struct kept_files *k = calloc(1, sizeof(*k));

	if (!k)
		return -ENOMEM;
	k->pid = pid;
	if (pid)
		kept_files_look(k);
	*out = k;
	return 0;
}

void kept_files_close(struct kept_files *k)
{
	for (size_t i = 0; k && i < k->count; i++) {
		free(k->files[i].path);
		if (k->files[i].fd >= 0)
			close(k->files[i].fd);
	}
	free(k);
}

/* The loader's name may lead through links of folders, the kernel's does not. */
static const struct kept_file *find(const struct kept_files *k, const char *path)
{
	const struct kept_file *found = NULL;
	const char *name = strrchr(path, '/');

	for (size_t i = 0; i < k->count; i++)
		if (!strcmp(k->files[i].path, path))
			return &k->files[i];
	for (size_t i = 0; name && i < k->count; i++) {
		if (strcmp(strrchr(k->files[i].path, '/'), name) != 0)
			continue;
		if (found)
			return NULL;
		found = &k->files[i];
	}
	return found;
}

static int copy_of(const struct kept_file *file)
{
	return file && file->fd >= 0 ? fcntl(file->fd, F_DUPFD_CLOEXEC, 0) : -1;
}

int kept_files_fd(const struct kept_files *k, const char *path)
{
	return copy_of(k ? find(k, path) : NULL);
}

void kept_files_add(struct kept_files *k, pid_t pid, const char *path, uint64_t inode)
{
	struct stat st;

	if (find_same(k, path, inode))
		return;
	struct kept_file file = { .path = strdup(path), .inode = inode };
	if (!file.path)
		return;
	file.fd = open_named(pid, path);
	if (file.fd >= 0 && (fstat(file.fd, &st) || (uint64_t)st.st_ino != inode)) {
		close(file.fd);
		file.fd = -1;
	}
	struct kept_file *to =
		&k->files[k->count < FILES_MAX ? k->count++ : k->oldest++ % FILES_MAX];
	if (to->path && to->fd >= 0)
		close(to->fd);
	free(to->path);
	*to = file;
}

int kept_files_fd_of(const struct kept_files *k, const char *path, uint64_t inode)
{
	return copy_of(find_same(k, path, inode));
}
