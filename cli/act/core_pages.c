/* SPDX-License-Identifier: MIT */
/* core_pages.c - see core_pages.h. */
#include "cli/act/core_pages.h"

#include "cli/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096u
#define IN_USE (UINT64_C(3) << 62) /* of an entry of /proc/PID/pagemap: present, or swapped out */
#define ENTRIES 8192u
#define SCAN_BYTES (UINT64_C(1) << 36) /* until the next look for a signal */

/* PAGEMAP_SCAN of Linux 6.7, which older headers lack. */
struct scan_region {
	uint64_t start;
	uint64_t end;
	uint64_t categories;
};

struct scan_arg {
	uint64_t size;
	uint64_t flags;
	uint64_t start;
	uint64_t end;
	uint64_t walk_end;
	uint64_t vec;
	uint64_t vec_len;
	uint64_t max_pages;
	uint64_t category_inverted;
	uint64_t category_mask;
	uint64_t category_anyof_mask;
	uint64_t return_mask;
};

#define PAGES_SCAN _IOWR('f', 16, struct scan_arg)
#define SCAN_IN_USE (1u << 3 | 1u << 4) /* present, swapped */

void core_pages_open(struct core_pages *p, pid_t pid)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	*p = (struct core_pages){ .pagemap = open(path, O_RDONLY | O_CLOEXEC), .file = -1 };
}

void core_pages_close(struct core_pages *p)
{
	if (p->pagemap >= 0)
		close(p->pagemap);
	if (p->file >= 0)
		close(p->file);
}

/* To open anything else than a file may have effects. */
static int open_file_of(pid_t pid, uint64_t start, uint64_t end)
{
	char path[96];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, start, end);
	if (stat(path, &st) || !S_ISREG(st.st_mode))
		return -1;
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

void core_pages_map(struct core_pages *p, pid_t pid, uint64_t start, uint64_t end, uint64_t offset,
		    bool has_file, bool is_shared)
{
	if (p->file >= 0)
		close(p->file);
	p->file = has_file ? open_file_of(pid, start, end) : -1;
	p->start = start;
	p->end = end;
	p->offset = offset;
	p->has_file = has_file;
	p->is_shared = is_shared;
}

/* 1: *at is the first page in use; 0: none before the end, where it is then; or -errno. */
static int scan(const struct core_pages *p, uint64_t *at, uint64_t end)
{
	struct scan_region region = { 0 };
	struct scan_arg arg = { .size = sizeof(arg),
				.start = *at,
				.end = end,
				.vec = (uintptr_t)&region,
				.vec_len = 1,
				.max_pages = 1,
				.category_anyof_mask = SCAN_IN_USE,
				.return_mask = SCAN_IN_USE };
	int found = ioctl(p->pagemap, PAGES_SCAN, &arg);

	if (found < 0)
		return -errno;
	*at = found ? region.start : end;
	return found > 0;
}

/* The same by some entries of the table itself. */
static int look_up(const struct core_pages *p, uint64_t *at, uint64_t end, size_t max)
{
	static uint64_t entries[ENTRIES];
	uint64_t left = (end - *at) / PAGE;
	size_t n = left < max ? (size_t)left : max;
	ssize_t got = pread(p->pagemap, entries, n * sizeof(*entries),
			    (off_t)(*at / PAGE * sizeof(*entries)));

	if (got <= 0)
		return got < 0 ? -errno : -ENODATA;
	for (size_t i = 0; i < (size_t)got / sizeof(*entries); i++, *at += PAGE)
		if (entries[i] & IN_USE)
			return 1;
	return 0;
}

static uint64_t next_in_use(const struct core_pages *p, uint64_t from)
{
	uint64_t at = from;
	/* Mostly the next page is in use. */
	int found = p->pagemap < 0 ? -EBADF : look_up(p, &at, p->end, 1);

	while (!found && at < p->end && !asked_times) {
		found = scan(p, &at, p->end - at < SCAN_BYTES ? p->end : at + SCAN_BYTES);
		if (found == -ENOTTY || found == -EINVAL)
			found = look_up(p, &at, p->end, ENTRIES);
	}
	return found < 0 ? from : at;
}

/* What the file has there: a page that nothing has read yet is not in use. */
static uint64_t next_in_file(const struct core_pages *p, uint64_t from)
{
	off_t at = p->file < 0 ? -1 :
				 lseek(p->file, (off_t)(p->offset + (from - p->start)), SEEK_DATA);

	if (at < 0)
		return p->file >= 0 && errno == ENXIO ? p->end : from;
	uint64_t next = p->start + ((uint64_t)at - p->offset) / PAGE * PAGE;
	return next < p->end ? next : p->end;
}

uint64_t core_pages_next(const struct core_pages *p, uint64_t from)
{
	if (!p->has_file)
		return next_in_use(p, from);
	uint64_t in_file = next_in_file(p, from);
	if (p->is_shared || in_file == from)
		return in_file;
	uint64_t in_use = next_in_use(p, from);
	return in_use < in_file ? in_use : in_file;
}
