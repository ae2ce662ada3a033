/* SPDX-License-Identifier: MIT */
/*
 * twin.c - a second mapping of pages of text, which the kernel can merge again.
 *
 * Two mappings become one only if they are of one open file: that which the loader opened and closed. A
 * file that is opened again by its name is another one, and a page of it leaves the text in pieces for
 * ever. So the twin comes from the text itself:
 *
 *	move a page with MREMAP_DONTUNMAP: its place stays mapped, and shows the file again
 *	make what was moved longer, up to the end of what is asked for; unmap the rest
 *
 * Only a page that the file has too may be moved. It is the first one asked for, or one before it in the file,
 * also in the mapping before: what lies between need not be as in the file. The list of pages in /proc tells.
 * A process that changed its user may not read that of its own. There pages are compared with the file, and one
 * of a mapping that could be written to is none: its twin would not merge with others.
 *
 * The kernel unlocks a mapping that a page is moved from. So a page that is locked is unlocked for that moment,
 * which makes it a mapping of its own. With one of its neighbours, since a mapping that is moved as a whole loses
 * what ties it to its forked parent, and would not become a part of the others again.
 *
 * There is no twin on kernels that move no page of a file in this way (before v5.13).
 */
#include "code/poke/twin.h"

#include <fcntl.h>
#include <linux/mman.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/sys.h"
#include "code/poke/locked.h"
#include "code/poke/same_file.h"
#include "code/poke/text.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#define LOOK_BACK_PAGES 256u
/* Of an entry in /proc/PID/pagemap. */
#define IS_PRESENT (1ull << 63)
#define IS_SWAPPED (1ull << 62)
#define IS_OF_FILE (1ull << 61)

/* How pages of the file are told from others. */
struct pages {
	int pagemap;
	uint8_t *file; /* if there is no pagemap: the part of the file from where on to look */
	uint64_t offset;
	uint64_t bytes;
};

static int is_in_file(int pagemap, uint64_t page)
{
	uint64_t entry;

	if (sys4(SYS_pread64, pagemap, &entry, sizeof(entry), page / PAGE_BYTES * sizeof(entry)) !=
	    sizeof(entry))
		return 0;
	return entry & IS_PRESENT ? (entry & IS_OF_FILE) != 0 : !(entry & IS_SWAPPED);
}

/* offset: of the page, in the file. */
static int is_files(const struct pages *pages, uint64_t page, uint64_t offset)
{
	static uint8_t here[PAGE_BYTES]; /* the lock is held */
	static uint8_t there[PAGE_BYTES];

	if (pages->pagemap >= 0)
		return is_in_file(pages->pagemap, page);
	return offset - pages->offset < pages->bytes && !text_read(page, here, PAGE_BYTES) &&
	       !text_read((uintptr_t)pages->file + (offset - pages->offset), there, PAGE_BYTES) &&
	       !memcmp(here, there, PAGE_BYTES);
}

static int open_pages(struct pages *pages, const struct mapping *mapping, uint64_t wanted)
{
	const uint64_t most = (LOOK_BACK_PAGES - 1) * PAGE_BYTES;

	*pages = (struct pages){
		.pagemap = (int)sys4(SYS_openat, AT_FDCWD, "/proc/thread-self/pagemap",
				     O_RDONLY | O_CLOEXEC, 0),
		.offset = wanted > most ? wanted - most : 0,
	};
	if (pages->pagemap >= 0)
		return 0;
	pages->bytes = wanted + PAGE_BYTES - pages->offset;
	pages->file = same_file_map(mapping, pages->offset, pages->bytes, PROT_READ);
	return memory_failed(pages->file) ? memory_error(pages->file) : 0;
}

static void close_pages(const struct pages *pages)
{
	if (pages->pagemap >= 0)
		sys_close(pages->pagemap);
	else
		memory_unmap(pages->file, pages->bytes);
}

struct source {
	uint64_t page;	 /* 0: none */
	uint64_t offset; /* of it, in the file */
	uint64_t near;	 /* the page, and one beside it in its mapping */
	uint64_t near_bytes;
	int is_text;
};

static struct source make_source(const struct mapping *m, uint64_t page, uint64_t offset)
{
	struct source source = { page, offset, page, PAGE_BYTES, m->protection & PROT_EXEC };

	if (m->end - m->start > PAGE_BYTES)
		source.near_bytes += PAGE_BYTES;
	if (source.near + source.near_bytes > m->end)
		source.near -= PAGE_BYTES;
	return source;
}

/* The mapping before m, if it is of the file too: linkers map a page of the file twice where two segments meet. */
static int go_back(struct mapping *m, const struct mapping *mapping)
{
	uint64_t at = m->start;

	return !mapping_find(at - 1, m) && m->end == at && m->inode == mapping->inode &&
	       m->major == mapping->major && m->minor == mapping->minor && !m->is_shared &&
	       (m->protection & ~PROT_EXEC) == PROT_READ;
}

/* In one mapping, the last page of the file from offset wanted down to offset least. */
static struct source find_in(const struct pages *pages, const struct mapping *m, uint64_t wanted,
			     uint64_t least)
{
	const uint64_t end = m->offset + (m->end - m->start);
	uint64_t next = wanted < end ? wanted + PAGE_BYTES : end;

	if (pages->pagemap < 0 && locked_is_accounted(m->start))
		return (struct source){ 0 };
	for (; next > m->offset && next > least; next -= PAGE_BYTES) {
		uint64_t page = m->start + (next - PAGE_BYTES - m->offset);

		if (is_files(pages, page, next - PAGE_BYTES))
			return make_source(m, page, next - PAGE_BYTES);
	}
	return (struct source){ 0 };
}

static struct source find_source(const struct pages *pages, const struct mapping *mapping,
				 uint64_t wanted)
{
	static struct mapping m; /* it is large, and the lock is held */
	const uint64_t most = (LOOK_BACK_PAGES - 1) * PAGE_BYTES;
	const uint64_t least = wanted > most ? wanted - most : 0;
	struct source source;

	m = *mapping;
	do
		source = find_in(pages, &m, wanted, least);
	while (!source.page && m.offset + (m.end - m.start) > least && go_back(&m, mapping));
	return source;
}

/* What another patcher wrote since the last look goes back, as where the place did not stay mapped. */
static uint8_t *move_unlocked(const struct pages *pages, const struct source *source)
{
	uint8_t byte;
	uint8_t *moved = (uint8_t *)sys5(SYS_mremap, source->page, PAGE_BYTES, PAGE_BYTES,
					 MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);

	if (memory_failed(moved))
		return NULL;
	if (is_files(pages, (uintptr_t)moved, source->offset) && !text_read(source->page, &byte, 1))
		return moved;
	sys5(SYS_mremap, moved, PAGE_BYTES, PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED,
	     source->page);
	return NULL;
}

static uint8_t *move_page(const struct pages *pages, const struct source *source)
{
	const enum locked as = locked_at(source->page);

	if (as == LOCKED_NOT)
		return move_unlocked(pages, source);
	if (as == LOCKED_UNKNOWN || locked_set(source->near, source->near_bytes, as) ||
	    sys2(SYS_munlock, source->near, source->near_bytes))
		return NULL;
	uint8_t *moved = move_unlocked(pages, source);
	locked_set(source->near, source->near_bytes, as);
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
	struct pages pages;

	if (open_pages(&pages, mapping, wanted))
		return NULL;
	const struct source source = find_source(&pages, mapping, wanted);
	uint8_t *moved = source.page ? move_page(&pages, &source) : NULL;
	close_pages(&pages);
	return moved ? lengthen(moved, &source, wanted - source.offset, bytes) : NULL;
}
