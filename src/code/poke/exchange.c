/* SPDX-License-Identifier: MIT */
/*
 * exchange.c - changed copies replace pages of text.
 *
 * No byte that a processor may run is ever written. So it needs neither an int3, which would end a
 * thread that has SIGTRAP blocked, nor a promise about stores to code:
 *
 *	map the same part of the same file elsewhere; write the new bytes there
 *	mremap() it over the text
 *
 * The kernel does the last step under its lock of the mappings. It takes the old pages from all
 * processors, as munmap() does, before the new ones can be seen. A thread that comes by in between
 * faults and waits in the kernel until it is over, no matter what it has blocked. So an instruction
 * is fetched from old pages or from new ones, also where it lies in two.
 *
 * What is mapped there is the same part of the file as before, so that readers of /proc/PID/maps,
 * uprobes and debuggers find what they know. Pages whose bytes become those of the file are the
 * file's own again. The copy is of the file that the loader opened, if possible, so that the kernel
 * merges it with what is beside it: twin.c.
 *
 * Code in memory without a file gets other such memory; that of trapline_code_alloc() as a whole. A
 * shared mapping is left alone, since its pages are others' too.
 *
 * What another patcher writes between the last inspection of the old pages and the exchange is
 * lost. That takes some microseconds, as with a writer of whole pages.
 */
#include "code/poke/exchange.h"

#include <errno.h>
#include <linux/mman.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "code/poke/locked.h"
#include "code/poke/mapping.h"
#include "code/poke/region.h"
#include "code/poke/same_file.h"
#include "code/poke/text_mem.h"
#include "code/poke/twin.h"

#define PAGE_MASK (~(uint64_t)(PAGE_BYTES - 1))
#define REPLACE_TRIES 1000

static const char why_not_private[] =
	"the page with the code cannot be exchanged: its mapping is shared, or may be written, or "
	"is one of the kernel";
static const char why_not_opened[] =
	"the page with the code cannot be exchanged: its file cannot be opened, or another one has "
	"its name now";
static const char why_not_mapped[] =
	"the page with the code cannot be exchanged: mmap() or mremap() is refused (mseal(), a "
	"seccomp filter, a limit of memory or of mappings)";
static const char why_not_written[] =
	"the page with the code cannot be exchanged: its copy cannot be written";
static const char why_locked[] =
	"the page with the code cannot be exchanged: it is locked in memory, and cannot be locked "
	"again as it is (RLIMIT_MEMLOCK, or mlock() of a part)";
static const char why_changed[] =
	"the bytes near a site changed during the exchange: another patcher or a debugger is at work";

/* One exchange. */
struct exchange {
	struct text *text;
	const struct text_span *spans;
	size_t span_count;
	uint64_t from;
	uint64_t bytes;
	uint8_t *old; /* what is there */
	uint8_t *new; /* what shall be there */
	uint8_t *copy;
	enum locked locked;
	int was_opened;		/* the copy, by mprotect() */
	struct mapping mapping; /* that of from */
	struct mapping other;
};

static uint64_t page_of(uint64_t address)
{
	return address & PAGE_MASK;
}

static uint64_t end_of_pages(const struct text_span *span)
{
	return page_of(span->start + span->bytes + PAGE_BYTES - 1);
}

size_t exchange_count(const struct text_span *spans, size_t n)
{
	size_t same = 1;

	while (same < n && !spans[same].is_failed &&
	       page_of(spans[same].start) <= end_of_pages(&spans[same - 1]))
		same++;
	return same;
}

static int refuse(const char **why, const char *reason, int err)
{
	*why = reason;
	return err;
}

static void store(const struct exchange *x, uint8_t *base, uint64_t base_address)
{
	const struct text_span *last = &x->spans[x->span_count - 1];

	for (uint32_t i = x->spans->first; i < last->end; i++) {
		const struct poke_entry *entry = &x->text->entries[i];

		memcpy(base + (entry->address - base_address), entry->after, entry->len);
	}
}

static int has_before(const struct exchange *x)
{
	const struct text_span *last = &x->spans[x->span_count - 1];

	for (uint32_t i = x->spans->first; i < last->end; i++) {
		const struct poke_entry *entry = &x->text->entries[i];

		if (memcmp(x->old + (entry->address - x->from), entry->before, entry->len))
			return 0;
	}
	return 1;
}

/* ---- what is mapped ---- */

/* at is of the same part of the same file as from, offset away. */
static int is_part_of(const struct mapping *first, uint64_t from, const struct mapping *at,
		      uint64_t address, uint64_t away)
{
	if (!at->inode || at->inode != first->inode)
		return at->inode == first->inode;
	return at->major == first->major && at->minor == first->minor &&
	       at->offset + (address - at->start) == first->offset + (from - first->start) + away;
}

/* The names of the kernel's own are in brackets. */
static int is_text(const struct mapping *mapping)
{
	int is_kernels = mapping->name[0] == '[' && strncmp(mapping->name, "[anon", 5);

	return mapping->protection == (PROT_READ | PROT_EXEC) && !mapping->is_shared &&
	       !(is_kernels && !mapping->inode);
}

/* They may be several mappings by now. */
static int find_mappings(struct exchange *x, const char **why)
{
	*why = why_not_private;
	if (mapping_find(x->from, &x->mapping) || !is_text(&x->mapping))
		return -EOPNOTSUPP;
	x->locked = locked_find(&x->mapping, x->from);
	for (uint64_t at = x->mapping.end; at < x->from + x->bytes; at = x->other.end) {
		if (mapping_find(at, &x->other) || !is_text(&x->other) ||
		    !is_part_of(&x->mapping, x->from, &x->other, at, at - x->from))
			return -EOPNOTSUPP;
		if (locked_find(&x->other, at) != x->locked)
			x->locked = LOCKED_UNKNOWN;
	}
	*why = why_locked;
	return x->locked == LOCKED_UNKNOWN ? -EOPNOTSUPP : 0;
}

/* Maps a copy of the mapping itself, so that the kernel merges it, or of the file by its name. */
static uint8_t *map_file(struct exchange *x)
{
	uint8_t *twin = twin_map(&x->mapping, x->from, x->bytes);

	return twin ? twin :
		      same_file_map(&x->mapping, x->mapping.offset + (x->from - x->mapping.start),
				    x->bytes, PROT_READ | PROT_EXEC);
}

static int map_copy(struct exchange *x, const char **why)
{
	x->copy = x->mapping.inode ? map_file(x) :
				     (uint8_t *)sys6(SYS_mmap, 0, x->bytes, PROT_READ | PROT_EXEC,
						     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!memory_failed(x->copy))
		return 0;
	return refuse(why, memory_error(x->copy) == -ENOENT ? why_not_opened : why_not_mapped,
		      -EOPNOTSUPP);
}

/* ---- the copy ---- */

/* No thread runs it yet. */
static int write_copy(struct exchange *x, uint64_t at, size_t len)
{
	if (!x->text->mem)
		x->text->mem = text_mem_get();
	if (!mem_write(x->text->mem, (uintptr_t)x->copy + at, x->new + at, len))
		return 0;
	uintptr_t page = page_of((uintptr_t)x->copy + at);
	if (sys3(SYS_mprotect, page, PAGE_BYTES, PROT_READ | PROT_WRITE))
		return -EACCES;
	x->was_opened = 1;
	memcpy(x->copy + at, x->new + at, len);
	return (int)sys3(SYS_mprotect, page, PAGE_BYTES, PROT_READ | PROT_EXEC);
}

/*
 * Only what differs, so that a uprobe that comes in the meantime stays, and a page of the file the
 * file's.
 */
static int fill_copy(struct exchange *x)
{
	int err = 0;

	for (uint64_t page = 0; page < x->bytes && !err; page += PAGE_BYTES) {
		size_t first = page;
		size_t end = page + PAGE_BYTES;

		while (first < end && x->copy[first] == x->new[first])
			first++;
		while (end > first && x->copy[end - 1] == x->new[end - 1])
			end--;
		if (end > first)
			err = write_copy(x, first, end - first);
	}
	return err;
}

static int is_hole(const struct exchange *x)
{
	uint8_t byte;

	return text_read(x->from, &byte, 1) != 0;
}

/*
 * Without memory for a structure of its own, the kernel can fail with the old pages gone and the
 * copy where it was. Nothing is worse than to leave it at that.
 */
static int take_place(const struct exchange *x)
{
	long at = -ENOMEM;

	for (int i = 0; i < REPLACE_TRIES && at != (long)x->from; i++) {
		at = sys5(SYS_mremap, x->copy, x->bytes, x->bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
			  x->from);
		if (at != (long)x->from && !is_hole(x))
			break;
	}
	return at == (long)x->from ? 0 : -EOPNOTSUPP;
}

static int prepare_copy(struct exchange *x, const char **why)
{
	memcpy(x->new, x->old, x->bytes);
	store(x, x->new, x->from);
	if (fill_copy(x))
		return refuse(why, why_not_written, -EOPNOTSUPP);
	/* Another patcher may have written in the time that this took. */
	if (memcmp((const void *)(uintptr_t)x->from, x->old, x->bytes))
		return refuse(why, why_changed, -EBUSY);
	return 0;
}

static int exchange_mapped(struct exchange *x, const char **why)
{
	int err = find_mappings(x, why);

	if (!err)
		err = map_copy(x, why);
	if (err)
		return err;
	err = prepare_copy(x, why);
	if (!err && take_place(x))
		err = refuse(why, why_not_mapped, -EOPNOTSUPP);
	if (err) {
		memory_unmap(x->copy, x->bytes);
		return err;
	}
	locked_set(x->from, x->bytes, x->locked);
	twin_note(x->from, x->bytes, x->was_opened);
	return 0;
}

/* From the start on, in bytes of pages. */
static uint64_t count_same(const uint8_t *copy, uint64_t text, uint64_t bytes)
{
	uint64_t same = 0;

	while (same < bytes &&
	       !memcmp(copy + same, (const void *)(uintptr_t)(text + same), PAGE_BYTES))
		same += PAGE_BYTES;
	return same;
}

void exchange_restore(uint64_t from, uint64_t bytes)
{
	static struct exchange x; /* it is large, and the lock is held */
	const char *why;
	uint64_t n;

	x = (struct exchange){ .from = from, .bytes = bytes };
	if (find_mappings(&x, &why) || !x.mapping.inode)
		return;
	uint8_t *const twin = twin_map(&x.mapping, from, bytes);
	for (uint64_t at = 0; twin && at < bytes; at += n) {
		n = count_same(twin + at, from + at, bytes - at);
		x.from = from + at;
		x.copy = twin + at;
		x.bytes = n;
		if (n && !take_place(&x)) {
			locked_set(x.from, n, x.locked);
			twin_note(x.from, n, 0);
			continue;
		}
		n = n ? n : PAGE_BYTES;
		memory_unmap(x.copy, n);
	}
}

/* ---- memory of trapline_code_alloc() ---- */

static int exchange_region(const struct exchange *x, const char **why)
{
	uint8_t *copy = region_copy_begin(x->from, x->bytes);

	if (!copy)
		return refuse(why, why_not_mapped, -EOPNOTSUPP);
	store(x, copy, x->from);
	return region_copy_end() ? refuse(why, why_not_mapped, -EOPNOTSUPP) : 0;
}

int exchange_pages(struct text *text, const struct text_span *spans, size_t n, const char **why)
{
	static struct exchange x; /* it is large, and the lock is held */

	x = (struct exchange){ .text = text, .spans = spans, .span_count = n };
	x.from = page_of(spans->start);
	x.bytes = end_of_pages(&spans[n - 1]) - x.from;
	x.old = memory_map(2 * x.bytes);
	if (memory_failed(x.old))
		return refuse(why, why_not_mapped, -EOPNOTSUPP);
	x.new = x.old + x.bytes;
	int err = 0;
	if (text_read(x.from, x.old, x.bytes))
		err = refuse(why, why_not_private, -EOPNOTSUPP);
	else if (!has_before(&x))
		err = refuse(why, why_changed, -EBUSY);
	else if (region_has(x.from))
		err = exchange_region(&x, why);
	else
		err = exchange_mapped(&x, why);
	memory_unmap(x.old, 2 * x.bytes);
	return err;
}
