/* SPDX-License-Identifier: MIT */
/* program_files.c - see program_files.h. */
#include "cli/launch/program_files.h"

#include "base/hash.h"
#include "base/maps.h"
#include "cli/launch/program.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct files {
	pid_t pid;
	uint64_t hash;
	uint64_t last; /* number of the file of the row before: a file has several rows */
	bool is_unknown;
};

static void add(struct files *f, uint64_t value)
{
	for (int i = 0; i < 8; i++)
		f->hash = hash_add(f->hash, value >> (8 * i) & 0xff);
}

static void add_file(struct files *f, const char *name, uint64_t inode)
{
	char path[PATH_MAX + 32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/root%s", f->pid, name);
	if (stat(path, &st) || st.st_ino != inode) {
		f->is_unknown = true;
		return;
	}
	add(f, st.st_dev);
	add(f, st.st_ino);
	add(f, (uint64_t)st.st_size);
	add(f, (uint64_t)st.st_mtim.tv_sec);
	add(f, (uint64_t)st.st_mtim.tv_nsec);
}

/* Called for each row: it finds none. */
static bool visit(const struct maps_row *row, const void *arg)
{
	struct files *f = *(struct files *const *)arg;

	if (!row->inode)
		return false;
	if (row->inode != f->last)
		add_file(f, row->name, row->inode);
	f->last = row->inode;
	return false;
}

uint64_t program_files_key(pid_t pid)
{
	struct files files = { .pid = pid, .hash = HASH_START };
	struct files *const to = &files;
	uint64_t start;
	uint64_t end;

	program_find_mapping(pid, visit, (const void *)&to, &start, &end);
	return files.is_unknown || files.hash == HASH_START ? 0 : files.hash;
}
