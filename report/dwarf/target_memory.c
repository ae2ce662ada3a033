/* SPDX-License-Identifier: MIT */
/* target_memory.c - memory of the target: as it is now, or as it was at a hit. */
#include "report/dwarf/symbols_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void symbols_read_from(struct symbols *s, pid_t pid)
{
	if (pid == (s->memory_pid ? s->memory_pid : s->pid))
		return;
	if (s->has_memory)
		close(s->memory_fd);
	s->has_memory = false;
	s->memory_pid = pid;
}

int symbols_read(struct symbols *s, uint64_t address, void *buf, size_t n)
{
	char path[64];

	if (!s->has_memory) {
		snprintf(path, sizeof(path), "/proc/%d/mem",
			 s->memory_pid ? s->memory_pid : s->pid);
		s->memory_fd = open(path, O_RDONLY | O_CLOEXEC);
		s->has_memory = s->memory_fd >= 0;
	}
	if (!s->has_memory)
		return -EACCES;
	if (address > INT64_MAX)
		return -EFAULT;
	return pread(s->memory_fd, buf, n, (off_t)address) == (ssize_t)n ? 0 : -EFAULT;
}

void symbols_use_copies(struct symbols *s, struct symbols_copies *copies)
{
	s->copies = copies;
}

/* Constants are now what they were at the hit. */
static bool is_constant(const struct symbols *s, uint64_t address)
{
	for (size_t i = 0; i < s->mapping_count; i++)
		if (address >= s->mappings[i].start && address < s->mappings[i].end)
			return s->mappings[i].is_constant;
	return false;
}

int symbols_read_copied(struct symbols *s, uint64_t address, void *buf, size_t n)
{
	const void *copy;

	if (s->copies && s->copies->find(s->copies->hit, address, &copy) >= n) {
		memcpy(buf, copy, n);
		return 0;
	}
	if (s->copies && !is_constant(s, address))
		s->copies->missed = true;
	return symbols_read(s, address, buf, n);
}

#define TEXT_COPIED 63u /* of a longer text a hit has no more */

/* False: the copy has less of it than it should. */
static bool copied_string(struct symbols *s, uint64_t address, char *buf, size_t n)
{
	const void *copy = NULL;
	size_t has = s->copies->find(s->copies->hit, address, &copy);
	size_t part = has < n - 1 ? has : n - 1;

	if (!part)
		return false;
	memcpy(buf, copy, part);
	if (memchr(buf, 0, part) || part == n - 1 || part >= TEXT_COPIED)
		return true;
	memset(buf, 0, part);
	return false;
}

void symbols_read_string(struct symbols *s, uint64_t address, char *buf, size_t n)
{
	size_t used = 0;

	memset(buf, 0, n);
	if (s->copies && copied_string(s, address, buf, n))
		return;
	if (s->copies && !is_constant(s, address))
		s->copies->missed = true;
	/* Page by page: what is behind one may be unmapped. */
	while (used + 1 < n) {
		size_t part = 4096 - (address + used) % 4096;
		if (part > n - 1 - used)
			part = n - 1 - used;
		if (symbols_read(s, address + used, buf + used, part)) {
			buf[used] = 0;
			return;
		}
		if (memchr(buf + used, 0, part))
			return;
		used += part;
	}
}
