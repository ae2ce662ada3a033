/* SPDX-License-Identifier: MIT */
/*
 * twin.c - a second mapping of pages of text, which the kernel can merge again.
 *
 * Two mappings become one only if they are of one open file: that which the loader opened and
 * closed. A file that is opened again by its name is another one, and a page of it leaves the text
 * in pieces for ever. So the twin comes from the text itself:
 *
 *	move a page with MREMAP_DONTUNMAP: its location stays mapped, and shows the file again
 *	make what was moved longer, up to the end of what is asked for; unmap the rest
 *
 * Only a page that the file has too may be moved. It is the first one asked for, or one before it
 * in the file, also in the mapping before: what lies between need not be as in the file. The list
 * of pages in /proc shows it. A process that changed its user may not read that of its own. There
 * pages are compared with the file. A page that was written after mprotect() is in a mapping that
 * merges with no other, so these are recorded. Where the file cannot be opened either, the first
 * page of its lowest mapping is taken: no code is changed there.
 *
 * The kernel unlocks a mapping that a page is moved from. So a page that is locked is unlocked for
 * that moment, which makes it a mapping of its own. It moves with one of its neighbours. A mapping
 * that is moved as a whole loses what ties it to its forked parent, and would not become a part of
 * the others again.
 *
 * There is no twin on kernels that move no page of a file in this way (before v5.13).
 */
#include "code/poke/twin.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "code/poke/locked.h"
#include "code/poke/same_file.h"
#include "code/poke/text.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#define LOOK_BACK_PAGES 256u
#define LOOK_FAR_BYTES (64ull << 20)
#define OPENED_MAX 1024u
/* bits of an entry in /proc/PID/pagemap */
#define IS_PRESENT (1ull << 63)
#define IS_SWAPPED (1ull << 62)
#define IS_OF_FILE (1ull << 61)

/* How pages of the file are distinguished from others. */
struct pages {
	int pagemap;
	const uint8_t *
		/*
		 * if it may not be read: the part of the file where to look; NULL: not there either
		 */
		file;
	uint64_t offset;
	uint64_t bytes;
};

static uint64_t opened[OPENED_MAX]; /* pages; 0: free */
static int has_more_opened;

static uint64_t *find_opened(uint64_t page)
{
	for (size_t i = 0; i < OPENED_MAX; i++)
		if (opened[i] == page)
			return &opened[i];
	return NULL;
}

void twin_note(uint64_t from, uint64_t bytes, int was_opened)
{
	for (uint64_t page = from; page < from + bytes; page += PAGE_BYTES) {
		uint64_t *row = find_opened(page);

		if (row && !was_opened)
			*row = 0;
		if (row || !was_opened)
			continue;
		row = find_opened(0);
		if (row)
			*row = page;
		else
			has_more_opened = 1;
	}
}

static int is_same(uint64_t a, uint64_t b)
{
	static uint8_t bytes[2][PAGE_BYTES]; /* the lock is held */

	return !text_read(a, bytes[0], PAGE_BYTES) && !text_read(b, bytes[1], PAGE_BYTES) &&
	       !memcmp(bytes[0], bytes[1], PAGE_BYTES);
}

static int is_in_file(int pagemap, uint64_t page)
{
	uint64_t entry;

	if (sys_of_fd(SYS_pread64, pagemap, &entry, sizeof(entry),
		      page / PAGE_BYTES * sizeof(entry), 0) != sizeof(entry))
		return 0;
	return entry & IS_PRESENT ? (entry & IS_OF_FILE) != 0 : !(entry & IS_SWAPPED);
}

/* offset: of the page, in the file. */
static int is_files(const struct pages *pages, uint64_t page, uint64_t offset)
{
	if (pages->pagemap >= 0)
		return is_in_file(pages->pagemap, page);
	return pages->file && offset - pages->offset < pages->bytes && !has_more_opened &&
	       !find_opened(page) &&
	       is_same(page, (uintptr_t)pages->file + (offset - pages->offset));
}

static int open_pages(struct pages *pages, const struct mapping *mapping, uint64_t least,
		      uint64_t wanted)
{
	*pages = (struct pages){
		.pagemap = own_fd_open("/proc/thread-self/pagemap", O_RDONLY),
		.offset = least,
		.bytes = wanted + PAGE_BYTES - least,
	};
	if (pages->pagemap >= 0)
		return 0;
	pages->file = same_file_map(mapping, least, pages->bytes, PROT_READ);
	if (memory_failed(pages->file))
		pages->file = NULL;
	return pages->pagemap == -EACCES ? 0 : pages->pagemap;
}

static void close_pages(const struct pages *pages)
{
	if (pages->pagemap >= 0)
		sys_close(pages->pagemap);
	if (pages->file)
		memory_unmap((void *)(uintptr_t)pages->file, pages->bytes);
}

struct source {
	uint64_t page;	 /* 0: none */
	uint64_t offset; /* of it, in the file */
	struct locked_part part;
	enum locked locked;
	int is_text;
};

static struct source make_source(const struct mapping *m, uint64_t page)
{
	return (struct source){
		.page = page,
		.offset = m->offset + (page - m->start),
		.part = locked_part_of(m, page),
		.locked = locked_find(m, page),
		.is_text = m->protection & PROT_EXEC,
	};
}

/*
 * The mapping before m, if it is of the file too: linkers map a page of the file twice where two
 * segments meet.
 */
static int go_back(struct mapping *m, const struct mapping *mapping)
{
	uint64_t at = m->start;

	return !mapping_find(at - 1, m) && m->end == at && m->inode == mapping->inode &&
	       m->major == mapping->major && m->minor == mapping->minor && !m->is_shared &&
	       (m->protection & ~PROT_EXEC) == PROT_READ;
}

/* In one mapping, the last page of the file from offset wanted down to offset least. 0: none. */
static uint64_t find_in(const struct pages *pages, const struct mapping *m, uint64_t wanted,
			uint64_t least)
{
	const uint64_t end = m->offset + (m->end - m->start);
	uint64_t next = wanted < end ? wanted + PAGE_BYTES : end;

	for (; next > m->offset && next > least; next -= PAGE_BYTES) {
		uint64_t page = m->start + (next - PAGE_BYTES - m->offset);

		if (is_files(pages, page, next - PAGE_BYTES))
			return page;
	}
	return 0;
}

static struct source find_source(const struct pages *pages, const struct mapping *mapping,
				 uint64_t wanted)
{
	static struct mapping m; /* it is large, and the lock is held */
	uint64_t page;

	m = *mapping;
	do
		page = find_in(pages, &m, wanted, pages->offset);
	while (!page && m.offset + (m.end - m.start) > pages->offset && go_back(&m, mapping));
	return page ? make_source(&m, page) : (struct source){ 0 };
}

/* Finds the bytes of headers, which are not executed. */
static struct source find_lowest(const struct mapping *mapping, uint64_t wanted)
{
	static struct mapping m; /* it is large, and the lock is held */

	m = *mapping;
	while (m.protection & PROT_EXEC)
		if (!go_back(&m, mapping))
			return (struct source){ 0 };
	return m.offset <= wanted && wanted - m.offset <= LOOK_FAR_BYTES ?
		       make_source(&m, m.start) :
		       (struct source){ 0 };
}

/*
 * What another patcher wrote since the last look goes back, as where the location did not stay
 * mapped.
 */
static uint8_t *move_unlocked(int pagemap, uint64_t page)
{
	uint8_t byte;
	uint8_t *moved = (uint8_t *)sys5(SYS_mremap, page, PAGE_BYTES, PAGE_BYTES,
					 MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);

	if (memory_failed(moved))
		return NULL;
	if (pagemap < 0 ? is_same((uintptr_t)moved, page) :
			  is_in_file(pagemap, (uintptr_t)moved) && !text_read(page, &byte, 1))
		return moved;
	sys5(SYS_mremap, moved, PAGE_BYTES, PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, page);
	return NULL;
}

static uint8_t *move_page(int pagemap, const struct source *source)
{
	const struct locked_part *part = &source->part;

	if (source->locked == LOCKED_NOT)
		return move_unlocked(pagemap, source->page);
	if (source->locked == LOCKED_UNKNOWN || sys2(SYS_munlock, part->start, part->bytes))
		return NULL;
	uint8_t *moved = move_unlocked(pagemap, source->page);
	locked_set(part->start, part->bytes, source->locked);
	return moved;
}

/* One of the headers' pages may not be executed. */
static uint8_t *lengthen(uint8_t *moved, const struct source *source, uint64_t skipped,
			 uint64_t bytes)
{
	uint8_t *all = memory_remap(moved, PAGE_BYTES, skipped + bytes);

	if (memory_failed(all)) {
		memory_unmap(moved, PAGE_BYTES);
		return NULL;
	}
	if (skipped)
		memory_unmap(all, skipped);
	if (source->is_text || !sys3(SYS_mprotect, all + skipped, bytes, PROT_READ | PROT_EXEC))
		return all + skipped;
	memory_unmap(all + skipped, bytes);
	return NULL;
}

uint8_t *twin_map(const struct mapping *mapping, uint64_t from, uint64_t bytes)
{
	const uint64_t wanted = mapping->offset + (from - mapping->start);
	const uint64_t most = (LOOK_BACK_PAGES - 1) * PAGE_BYTES;
	struct pages pages;

	if (open_pages(&pages, mapping, wanted > most ? wanted - most : 0, wanted))
		return NULL;
	struct source source = find_source(&pages, mapping, wanted);
	if (!source.page && pages.pagemap < 0)
		source = find_lowest(mapping, wanted);
	uint8_t *moved = source.page ? move_page(pages.pagemap, &source) : NULL;
	close_pages(&pages);
	return moved ? lengthen(moved, &source, wanted - source.offset, bytes) : NULL;
}
