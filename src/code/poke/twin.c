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
#include <sys/mman.h>

#include "base/memory.h"
#include "base/sys.h"
#include "code/poke/locked.h"
#include "code/poke/text.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#define LOOK_BACK_PAGES 256u
/* Of an entry in /proc/PID/pagemap. */
#define IS_PRESENT (1ull << 63)
#define IS_SWAPPED (1ull << 62)
#define IS_OF_FILE (1ull << 61)

static int is_files(int pagemap, uint64_t page)
{
	uint64_t entry;

	if (sys4(SYS_pread64, pagemap, &entry, sizeof(entry), page / PAGE_BYTES * sizeof(entry)) !=
	    sizeof(entry))
		return 0;
	return entry & IS_PRESENT ? (entry & IS_OF_FILE) != 0 : !(entry & IS_SWAPPED);
}

struct source {
	uint64_t page;	  /* 0: none */
	uint64_t skipped; /* bytes of the file before what is asked for */
	uint64_t near;	  /* the page, and one beside it in its mapping */
	uint64_t near_bytes;
	int is_text;
};

static struct source make_source(const struct mapping *m, uint64_t page, uint64_t skipped)
{
	struct source source = { page, skipped, page, PAGE_BYTES, m->protection & PROT_EXEC };

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

/* The last page of m with this part of the file, or with one before it: its offset from the start of m. */
static uint64_t last_page(const struct mapping *m, uint64_t wanted)
{
	uint64_t last = m->end - m->start - PAGE_BYTES;

	return wanted - m->offset < last ? wanted - m->offset : last;
}

static struct source find_source(int pagemap, const struct mapping *mapping, uint64_t from)
{
	static struct mapping m; /* it is large, and the lock is held */
	const uint64_t wanted = mapping->offset + (from - mapping->start);
	uint64_t away = 0;

	m = *mapping;
	do {
		for (uint64_t n = m.offset <= wanted ? last_page(&m, wanted) / PAGE_BYTES + 1 : 0;
		     n && away < LOOK_BACK_PAGES * PAGE_BYTES; n--) {
			uint64_t page = m.start + (n - 1) * PAGE_BYTES;

			away = wanted - (m.offset + (page - m.start));
			if (is_files(pagemap, page))
				return make_source(&m, page, away);
		}
	} while (away < LOOK_BACK_PAGES * PAGE_BYTES && go_back(&m, mapping));
	return (struct source){ 0 };
}

/* What another patcher wrote since the last look goes back, as where the place did not stay mapped. */
static uint8_t *move_unlocked(int pagemap, uint64_t page)
{
	uint8_t byte;
	uint8_t *moved = (uint8_t *)sys5(SYS_mremap, page, PAGE_BYTES, PAGE_BYTES,
					 MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);

	if (memory_failed(moved))
		return NULL;
	if (is_files(pagemap, (uintptr_t)moved) && !text_read(page, &byte, 1))
		return moved;
	sys5(SYS_mremap, moved, PAGE_BYTES, PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, page);
	return NULL;
}

static uint8_t *move_page(int pagemap, const struct source *source)
{
	const enum locked as = locked_at(source->page);

	if (as == LOCKED_NOT)
		return move_unlocked(pagemap, source->page);
	if (as == LOCKED_UNKNOWN || locked_set(source->near, source->near_bytes, as) ||
	    sys2(SYS_munlock, source->near, source->near_bytes))
		return NULL;
	uint8_t *moved = move_unlocked(pagemap, source->page);
	locked_set(source->near, source->near_bytes, as);
	return moved;
}

/* One of the headers' pages may not be executed. */
static uint8_t *lengthen(uint8_t *moved, const struct source *source, uint64_t bytes)
{
	const uint64_t skipped = source->skipped;
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
	int pagemap = (int)sys4(SYS_openat, AT_FDCWD, "/proc/thread-self/pagemap",
				O_RDONLY | O_CLOEXEC, 0);

	if (pagemap < 0)
		return NULL;
	const struct source source = find_source(pagemap, mapping, from);
	uint8_t *moved = source.page ? move_page(pagemap, &source) : NULL;
	sys_close(pagemap);
	return moved ? lengthen(moved, &source, bytes) : NULL;
}
