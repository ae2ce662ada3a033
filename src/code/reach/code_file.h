/* SPDX-License-Identifier: MIT */
/* code_file.h - where code of a process lies on disk. */
#ifndef CODE_REACH_CODE_FILE_H
#define CODE_REACH_CODE_FILE_H

#include <stdint.h>
#include <sys/types.h>

#define CODE_PATH_MAX 96

/* A mapping of a file, by the name it has below /proc no matter what became of the file. */
struct code_file {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* in the file, of start */
	uint64_t inode;
	uint64_t device;
	char path[CODE_PATH_MAX];
};

/*
 * Calls each() for each mapping (inode 0: of no file), until it returns other than 0. Returns that,
 * or 0, or -errno.
 */
int code_file_each(pid_t pid, int (*each)(void *arg, const struct code_file *file, int is_code),
		   void *arg);
/* The mapping that contains an address. 0, or -ENOENT: none, or no file behind it; or -errno. */
int code_file_find(pid_t pid, uint64_t address, struct code_file *out);

static inline int code_file_is_same(const struct code_file *a, const struct code_file *b)
{
	return a->inode == b->inode && a->device == b->device;
}

#endif
