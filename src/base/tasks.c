/* SPDX-License-Identifier: MIT */
/* tasks.c - the threads of a process, by raw getdents64: no allocation, no directory stream. */
#include "base/tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/memory.h"
#include "base/own_fd.h"
#include "base/sys.h"

struct dirent_raw {
	uint64_t inode;
	int64_t offset;
	uint16_t length;
	uint8_t type;
	char name[];
};

static void path_of(pid_t pid, char *path)
{
	char digits[16];
	int n = 0;

	memcpy(path, "/proc/", 6);
	path += 6;
	do
		digits[n++] = (char)('0' + pid % 10);
	while (pid /= 10);
	while (n)
		*path++ = digits[--n];
	memcpy(path, "/task", sizeof("/task"));
}

static int list_append(struct task_list *list, pid_t tid)
{
	if (list->count == list->capacity) {
		size_t old_bytes = list->capacity * sizeof(pid_t);
		size_t bytes = old_bytes ? 2 * old_bytes : PAGE_BYTES;
		void *grown = old_bytes ? memory_remap(list->tids, old_bytes, bytes) :
					  memory_map(bytes);
		if (memory_failed(grown))
			return memory_error(grown);
		list->tids = grown;
		list->capacity = bytes / sizeof(pid_t);
	}
	list->tids[list->count++] = tid;
	return 0;
}

static int each_name(const char *buf, long n, int (*act)(void *arg, pid_t tid), void *arg)
{
	int err = 0;

	for (long at = 0; !err && at < n;) {
		const struct dirent_raw *entry = (const void *)(buf + at);
		pid_t tid = 0;

		for (const char *c = entry->name; *c >= '0' && *c <= '9'; c++)
			tid = tid * 10 + (*c - '0');
		if (tid)
			err = act(arg, tid);
		at += entry->length;
	}
	return err;
}

int tasks_each(pid_t pid, struct task_names *names, int (*act)(void *arg, pid_t tid), void *arg)
{
	char path[40];
	int err = 0;

	path_of(pid, path);
	int fd = own_fd_open(path, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return fd == -ENOENT ? -ESRCH : fd;
	while (!err) {
		long n = sys_of_fd(SYS_getdents64, fd, names->bytes, sizeof(names->bytes), 0, 0);
		if (n <= 0) {
			err = n == -ENOENT ? -ESRCH : (int)n;
			break;
		}
		err = each_name(names->bytes, n, act, arg);
	}
	sys_close(fd);
	return err;
}

static int append(void *arg, pid_t tid)
{
	return list_append(arg, tid);
}

int tasks_read(pid_t pid, struct task_list *list)
{
	struct task_names *names =
		memory_map(sizeof(*names)); /* a handler's stack has little room */

	list->count = 0;
	if (memory_failed(names))
		return memory_error(names);
	int err = tasks_each(pid, names, append, list);
	memory_unmap(names, sizeof(*names));
	return err;
}

/* If a read of nothing at an address is refused, there is no memory at all. */
static int has_memory(void *arg, pid_t tid)
{
	uint8_t byte;
	ssize_t n = sys_read_memory(tid, 0, &byte, 1);

	(void)arg;
	return n == -ESRCH ? 0 : tid;
}

__attribute__((noinline)) static pid_t find_with_memory(pid_t pid)
{
	struct task_names names;
	int tid = tasks_each(pid, &names, has_memory, NULL);

	return tid > 0 ? tid : pid;
}

pid_t tasks_with_memory(pid_t pid)
{
	return has_memory(NULL, pid) ? pid : find_with_memory(pid);
}

ssize_t tasks_read_memory(pid_t pid, uint64_t addr, void *buf, size_t n)
{
	ssize_t got = sys_read_memory(pid, addr, buf, n);

	return got == -ESRCH ? sys_read_memory(find_with_memory(pid), addr, buf, n) : got;
}

void tasks_free(struct task_list *list)
{
	if (list->capacity)
		memory_unmap(list->tids, list->capacity * sizeof(pid_t));
	*list = (struct task_list){ 0 };
}
