/* SPDX-License-Identifier: MIT */
/*
 * pad_file.c - see pad_file.h.
 *
 * What lies between two pages stays a hole: nothing jumps there. A process that locks its memory
 * would fill it, so what is joined has a limit, and where memory is locked nothing is joined.
 */
#include "code/probe/pad_file.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/memory_file.h"
#include "base/own_fd.h"
#include "base/own_status.h"
#include "base/sys.h"
#include "base/table_size.h"
#include "code/kept_fd.h"
#include "code/poke/text.h"

#define FILE_BYTES ((size_t)1 << 47)
#define SPANS_MOST TABLE_SIZE(1024u, 2u)
#define NEAR_BYTES ((uint64_t)1 << 20)
#define JOINED_MOST ((uint64_t)16 << 20)
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Pages of one file, without a gap. */
struct span {
	uint64_t start;
	uint64_t end;
	uint32_t file;
};

static struct span spans[SPANS_MOST];
static uint32_t span_count;
static struct kept_fd kept = KEPT_FD_NONE;
static uint32_t file; /* which one it is that kept is of: an attach has its own */
static uint64_t may_join_bytes;

static struct span *span_find(uint64_t address)
{
	for (uint32_t i = 0; i < span_count; i++)
		if (address - spans[i].start < spans[i].end - spans[i].start)
			return &spans[i];
	return NULL;
}

/*
 * In Trapline's own table of descriptors: in the program's, its open(2) would miss a number for a
 * moment. And a filter may kill a thread that makes a file, where it permits mmap(2).
 */
static int need_file(void)
{
	if (kept_fd_is_ours(&kept))
		return 0;
	if (!atomic_get(&own_fd_table) || own_status("\nSeccomp:\t") != '0')
		return -EPERM;
	kept_fd_take(&kept, memory_file("trapline-pads", FILE_BYTES));
	if (kept.fd < 0)
		return -EBADF;
	file++;
	may_join_bytes = own_status("\nVmLck:\t       ") == '0' ? JOINED_MOST : 0;
	return 0;
}

static int write_file(uint64_t offset, const uint8_t *bytes, size_t n)
{
	return sys_of_fd(SYS_pwrite64, kept.fd, bytes, n, offset, 0) == (long)n ? 0 : -EIO;
}

/* -EEXIST: something is there. Before v4.17 the flag of mmap(2) is a hint only. */
static int map_at(uint64_t start, size_t bytes, int protection, int flags, int fd)
{
	void *memory = (void *)sys_mmap((void *)(uintptr_t)start, bytes, protection,
					MAP_PRIVATE | flags, fd, fd < 0 ? 0 : start);

	if (memory_failed(memory))
		return memory_error(memory);
	if ((uintptr_t)memory == start)
		return 0;
	memory_unmap(memory, bytes);
	return -EEXIST;
}

/* A core file would have the holes too. */
static int map_file(uint64_t start, size_t bytes, int flags)
{
	int err = map_at(start, bytes, PROT_READ | PROT_EXEC, flags, kept.fd);

	if (!err)
		sys3(SYS_madvise, start, bytes, MADV_DONTDUMP);
	return err;
}

/* Most addresses are taken where memory is crowded, so that is asked before anything is written. */
static int map_filled(uint64_t start, const uint8_t *page)
{
	int err = map_at(start, PAGE_BYTES, PROT_NONE, MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1);

	if (err)
		return err;
	err = write_file(start, page, PAGE_BYTES);
	if (!err)
		err = map_file(start, PAGE_BYTES, MAP_FIXED);
	if (err)
		memory_unmap((void *)(uintptr_t)start, PAGE_BYTES);
	return err;
}

int pad_file_map(uint64_t start, const uint8_t *page)
{
	const struct span *span = span_find(start);
	int err = need_file();

	if (!err && ((span && span->file != file) || (!span && span_count == SPANS_MOST)))
		err = -ENOSPC;
	if (err)
		return err;
	if (span)
		return write_file(start, page, PAGE_BYTES);
	err = map_filled(start, page);
	if (!err)
		spans[span_count++] = (struct span){ start, start + PAGE_BYTES, file };
	return err;
}

int pad_page_map(uint64_t start)
{
	return span_find(start) ? 0 :
				  map_at(start, PAGE_BYTES, PROT_READ | PROT_EXEC,
					 MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1);
}

void pad_page_unmap(uint64_t start)
{
	struct span *span = span_find(start);

	if (span && span->end - span->start > PAGE_BYTES)
		return;
	if (span)
		*span = spans[--span_count];
	memory_unmap((void *)(uintptr_t)start, PAGE_BYTES);
}

int pad_file_write(uint64_t address, const uint8_t *bytes, size_t n, int is_fresh)
{
	const struct span *span = span_find(address);
	uint8_t seen[64];

	if (!span || span->file != file || n > sizeof(seen) || !kept_fd_is_ours(&kept))
		return -EBADF;
	int err = write_file(address, bytes, n);
	/* A debugger that wrote to the page has made it the process's own. A read maps it. */
	if (!err && !is_fresh && (text_read(address, seen, n) || memcmp(seen, bytes, n)))
		err = -EIO;
	return err;
}

/* ---- neighbours ---- */

/* Two that do not overlap. */
static uint64_t gap_of(const struct span *a, const struct span *b)
{
	return a->end <= b->start ? b->start - a->end : a->start - b->end;
}

static struct span *nearest(const struct span *to, int above)
{
	struct span *found = NULL;

	for (struct span *s = spans; s < spans + span_count; s++)
		if (s != to && s->file == to->file && (s->start > to->start) == above &&
		    (!found || gap_of(s, to) < gap_of(found, to)))
			found = s;
	return found;
}

static int join(struct span *a, struct span *b)
{
	const uint64_t gap = gap_of(a, b);
	const uint64_t from = a->end <= b->start ? a->end : b->end;

	if (gap > NEAR_BYTES || gap > may_join_bytes ||
	    (gap && map_file(from, gap, MAP_FIXED_NOREPLACE)))
		return -EBUSY;
	may_join_bytes -= gap;
	a->start = a->start < b->start ? a->start : b->start;
	a->end = a->end > b->end ? a->end : b->end;
	*b = spans[--span_count];
	return 0;
}

static int join_nearest(uint64_t start, int above)
{
	struct span *span = span_find(start);
	struct span *other = span ? nearest(span, above) : NULL;

	return other ? join(span, other) : -ENOENT;
}

void pad_file_join(uint64_t start)
{
	const struct span *span = span_find(start);

	if (!span || span->file != file || !kept_fd_is_ours(&kept))
		return;
	while (!join_nearest(start, 0) || !join_nearest(start, 1))
		;
}
