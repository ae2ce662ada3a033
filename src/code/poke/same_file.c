/* SPDX-License-Identifier: MIT */
/*
 * same_file.c - see same_file.h.
 *
 * The second of the names is for a deleted program; the third needs CAP_CHECKPOINT_RESTORE. The
 * kernel states of both mappings which file they are of: a name or fstat() can mislead.
 */
#include "code/poke/same_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/own_fd.h"
#include "base/sys.h"

#define LINK_BYTES 80

static int is_same(const struct mapping *mapping, uint64_t offset, uint64_t at)
{
	static struct mapping other; /* it is large, and the lock is held */

	return !mapping_find(at, &other) && other.inode && other.inode == mapping->inode &&
	       other.major == mapping->major && other.minor == mapping->minor &&
	       other.offset + (at - other.start) == offset;
}

static uint8_t *map_by_name(const struct mapping *mapping, const char *name, uint64_t offset,
			    uint64_t bytes, int protection)
{
	int fd = own_fd_open(name, O_RDONLY | O_NOCTTY | O_NONBLOCK);

	if (fd < 0)
		return (uint8_t *)-ENOENT;
	uint8_t *copy = (uint8_t *)sys_mmap(NULL, bytes, protection, MAP_PRIVATE, fd, offset);
	sys_close(fd);
	if (memory_failed(copy))
		return (uint8_t *)-ENOMEM;
	if (is_same(mapping, offset, (uintptr_t)copy))
		return copy;
	memory_unmap(copy, bytes);
	return (uint8_t *)-ENOENT;
}

uint8_t *same_file_map(const struct mapping *mapping, uint64_t offset, uint64_t bytes,
		       int protection)
{
	char link[LINK_BYTES];
	const char *const names[] = { mapping->name, "/proc/self/exe", link };
	uint8_t *copy = (uint8_t *)-ENOENT;

	snprintf(link, sizeof(link), "/proc/self/map_files/%lx-%lx", mapping->start, mapping->end);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && memory_error(copy) == -ENOENT;
	     i++)
		copy = map_by_name(mapping, names[i], offset, bytes, protection);
	return copy;
}
