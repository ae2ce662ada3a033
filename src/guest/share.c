/* SPDX-License-Identifier: MIT */
/*
 * share.c - see share.h.
 *
 * LD_PRELOAD and TRAPLINE_OPTIONS stay in the environment of a daemon that outlives the command,
 * and of all that the daemon starts later. So the agent believes nothing of what it finds there.
 * The files must be of this process's own user, of the run that the option was made for, and
 * sealed. A file that shrinks would kill the process that reads it.
 */
#include "guest/share.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "guest/own_table.h"
#include "record/share_head.h"

/* From <linux/fcntl.h>, which does not go with <fcntl.h>. */
#define GET_SEALS 1034
#define SEAL_SHRINK 2
#define SEAL_GROW 4
#define SEAL_FUTURE_WRITE 16

struct named {
	int pid;
	int head;
	int data;
	uint64_t nonce[2];
};

static int read_name(const char *text, struct named *out)
{
	int end = 0;
	int n = sscanf(text, "%d,%d,%d,%16" SCNx64 "%16" SCNx64 "%n", &out->pid, &out->head,
		       &out->data, &out->nonce[0], &out->nonce[1], &end);

	return n == 5 && !text[end] && out->pid > 0 ? 0 : -EINVAL;
}

static int is_of_own_user(int at, const char *path, struct stat *st)
{
	return !sys_of_fd(SYS_newfstatat, at, path, st, *path ? 0 : AT_EMPTY_PATH, 0) &&
	       st->st_uid == (uid_t)sys0(SYS_geteuid);
}

static int has_size_and_seals(int fd, size_t bytes, int seals)
{
	struct stat st;
	long found = sys_of_fd(SYS_fcntl, fd, GET_SEALS, 0, 0, 0);

	return found >= 0 && (found & seals) == seals && is_of_own_user(fd, "", &st) &&
	       (size_t)st.st_size == bytes;
}

/* O_NONBLOCK: no matter what it is, this process does not wait for it. */
static int open_there(int pid, int number, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, number);
	return own_fd_keep(SYS_openat, AT_FDCWD, (long)(uintptr_t)path,
			   flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0, 0);
}

static void *map_data(const struct named *name, size_t bytes)
{
	int fd = open_there(name->pid, name->data, O_RDWR);
	void *memory = NULL;

	if (fd < 0)
		return NULL;
	if (has_size_and_seals(fd, bytes, SEAL_SHRINK | SEAL_GROW))
		memory = memory_map_shared(bytes, 1, fd, 0);
	sys_close(fd);
	return memory && !memory_failed(memory) ? memory : NULL;
}

/* Over the first bytes of the data, which nothing uses. */
static int map_head(const struct named *name, void *memory)
{
	int fd = open_there(name->pid, name->head, O_RDONLY);
	long at = -ENOENT;

	if (fd < 0)
		return fd;
	if (has_size_and_seals(fd, SHARE_HEAD_BYTES, SEAL_SHRINK | SEAL_GROW | SEAL_FUTURE_WRITE))
		at = sys_mmap(memory, SHARE_HEAD_BYTES, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
	sys_close(fd);
	return at < 0 ? (int)at : 0;
}

static int is_right(const struct share_head *head, uint64_t magic, size_t bytes)
{
	return head->magic == magic && head->bytes == bytes;
}

void *share_map(const char *text, uint64_t magic, size_t bytes)
{
	struct named name;
	struct stat st;
	char path[32];

	if (read_name(text, &name))
		return NULL;
	snprintf(path, sizeof(path), "/proc/%d", name.pid);
	if (!is_of_own_user(AT_FDCWD, path, &st))
		return NULL;
	struct share_head *memory = map_data(&name, bytes);
	if (!memory)
		return NULL;
	if (!map_head(&name, memory) && is_right(memory, magic, bytes) &&
	    !memcmp(memory->nonce, name.nonce, sizeof(name.nonce)))
		return memory;
	memory_unmap(memory, bytes);
	return NULL;
}

static int keep_head(void *memory)
{
	void *copy = memory_map(SHARE_HEAD_BYTES);

	if (memory_failed(copy))
		return memory_error(copy);
	memcpy(copy, memory, SHARE_HEAD_BYTES);
	sys3(SYS_mprotect, copy, SHARE_HEAD_BYTES, PROT_READ);
	long at = sys5(SYS_mremap, copy, SHARE_HEAD_BYTES, SHARE_HEAD_BYTES,
		       MREMAP_MAYMOVE | MREMAP_FIXED, memory);
	if (at >= 0)
		return 0;
	memory_unmap(copy, SHARE_HEAD_BYTES);
	return (int)at;
}

void *share_map_own(const char *text, uint64_t magic, size_t bytes)
{
	struct stat st;
	void *memory = NULL;

	if (strncmp(text, "fd:", 3) != 0)
		return NULL;
	int fd = atoi(text + 3);
	if (!sys4(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) && (size_t)st.st_size == bytes)
		memory = memory_map_shared(bytes, 1, fd, 0);
	if (!memory || memory_failed(memory))
		return NULL;
	if (!keep_head(memory) && is_right(memory, magic, bytes))
		return memory;
	memory_unmap(memory, bytes);
	return NULL;
}

int share_open(const char *text)
{
	struct named name;
	int fd = -EINVAL;

	if (!strncmp(text, "fd:", 3))
		fd = own_table_is_open() ?
			     own_table_take(atoi(text + 3)) :
			     own_fd_up((int)sys3(SYS_fcntl, atoi(text + 3), F_DUPFD_CLOEXEC, 3));
	else if (!read_name(text, &name))
		fd = open_there(name.pid, name.data, O_RDWR);
	return fd;
}
