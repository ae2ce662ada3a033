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
 * Only a page that the file has too may be moved. It is the first one asked for, or one before it: what
 * lies between need not be as in the file. The list of pages in /proc tells.
 *
 * The kernel unlocks a mapping that a page is moved from, so there is no twin in a process with locked
 * memory, nor on kernels that move no page of a file in this way (before v5.13).
 */
#include "code/poke/twin.h"

#include <fcntl.h>
#include <linux/mman.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/own_status.h"
#include "code/poke/text.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#define LOOK_BACK_PAGES 256u
/* Of an entry in /proc/PID/pagemap. */
#define IS_PRESENT (1ull << 63)
#define IS_SWAPPED (1ull << 62)
#define IS_OF_FILE (1ull << 61)

static int is_before(const struct mapping *mapping, uint64_t at, const struct mapping *before)
{
	return before->inode == mapping->inode && before->major == mapping->major &&
	       before->minor == mapping->minor && before->end == at && !before->is_shared &&
	       (before->protection & ~PROT_EXEC) == PROT_READ &&
	       before->offset - before->start == mapping->offset - mapping->start;
}

/* From where on the same part of the file is mapped, also by mappings that precede this one. */
static uint64_t find_lowest(const struct mapping *mapping, uint64_t from)
{
	static struct mapping before; /* it is large, and the lock is held */
	uint64_t lowest = mapping->start;

	while (from - lowest < LOOK_BACK_PAGES * PAGE_BYTES && !mapping_find(lowest - 1, &before) &&
	       is_before(mapping, lowest, &before))
		lowest = before.start;
	return lowest;
}

static int is_files(int pagemap, uint64_t page)
{
	uint64_t entry;

	if (sys4(SYS_pread64, pagemap, &entry, sizeof(entry), page / PAGE_BYTES * sizeof(entry)) !=
	    sizeof(entry))
		return 0;
	return entry & IS_PRESENT ? (entry & IS_OF_FILE) != 0 : !(entry & IS_SWAPPED);
}

/* 0: none. */
static uint64_t find_source(int pagemap, const struct mapping *mapping, uint64_t from)
{
	uint64_t lowest = find_lowest(mapping, from);
	uint64_t page = from;

	for (uint32_t i = 0; i < LOOK_BACK_PAGES && page >= lowest; i++, page -= PAGE_BYTES)
		if (is_files(pagemap, page))
			return page;
	return 0;
}

/* What another patcher wrote since the last look goes back, as where the place did not stay mapped. */
static uint8_t *move_page(int pagemap, uint64_t source)
{
	uint8_t byte;
	uint8_t *moved = (uint8_t *)sys5(SYS_mremap, source, PAGE_BYTES, PAGE_BYTES,
					 MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);

	if (memory_failed(moved))
		return NULL;
	if (is_files(pagemap, (uintptr_t)moved) && !text_read(source, &byte, 1))
		return moved;
	sys5(SYS_mremap, moved, PAGE_BYTES, PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, source);
	return NULL;
}

/* moved begins skipped bytes before what is asked for. One of the headers' pages may not be executed. */
static uint8_t *lengthen(uint8_t *moved, uint64_t skipped, uint64_t bytes, int is_text)
{
	uint8_t *all = memory_remap(moved, PAGE_BYTES, skipped + bytes);

	if (memory_failed(all)) {
		memory_unmap(moved, PAGE_BYTES);
		return NULL;
	}
	if (skipped)
		memory_unmap(all, skipped);
	if (is_text || !sys3(SYS_mprotect, all + skipped, bytes, PROT_READ | PROT_EXEC))
		return all + skipped;
	memory_unmap(all + skipped, bytes);
	return NULL;
}

uint8_t *twin_map(const struct mapping *mapping, uint64_t from, uint64_t bytes)
{
	int has_locked = own_status("\nVmLck:\t       0") != ' ';
	int pagemap = has_locked ? -1 :
				   (int)sys4(SYS_openat, AT_FDCWD, "/proc/thread-self/pagemap",
					     O_RDONLY | O_CLOEXEC, 0);
	uint8_t *twin = NULL;

	if (pagemap < 0)
		return NULL;
	uint64_t source = find_source(pagemap, mapping, from);
	uint8_t *moved = source ? move_page(pagemap, source) : NULL;
	if (moved)
		twin = lengthen(moved, from - source, bytes, source >= mapping->start);
	sys_close(pagemap);
	return twin;
}
