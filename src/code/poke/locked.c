/* SPDX-License-Identifier: MIT */
/*
 * locked.c - see locked.h.
 *
 * /proc/self/smaps has it too, but the kernel inspects all pages of the mappings before for that:
 * seconds, in a large process. MADV_COLD is refused where memory is locked. A lock of two pages
 * shows whether all of it is locked, or each page at its first use. The other kind makes them a
 * mapping of their own.
 */
#include "code/poke/locked.h"

#include <errno.h>

#include "base/after_fork.h"
#include "base/memory.h"
#include "base/own_status.h"
#include "base/sys.h"

#define COLD 20	   /* MADV_COLD, Linux commit 9c276cc65a58 (v5.4) */
#define ON_FAULT 1 /* MLOCK_ONFAULT */

/*
 * It is read for the whole process, once for a change: what the process locks in the meantime is as
 * late as if it did that afterwards.
 */
static AFTER_FORK int is_looked_at;
static int is_none_locked;

AT_FORK void locked_forget(void)
{
	is_looked_at = 0;
}

struct locked_part locked_part_of(const struct mapping *mapping, uint64_t page)
{
	struct locked_part part = { page, PAGE_BYTES };

	if (mapping->end - mapping->start > PAGE_BYTES)
		part.bytes += PAGE_BYTES;
	if (part.start + part.bytes > mapping->end)
		part.start -= PAGE_BYTES;
	return part;
}

int locked_set(uint64_t address, uint64_t bytes, enum locked as)
{
	if (as == LOCKED_NOT)
		return 0;
	if (as == LOCKED_ON_FAULT)
		return (int)sys3(SYS_mlock2, address, bytes, ON_FAULT);
	return (int)sys2(SYS_mlock, address, bytes);
}

/* In a page of Trapline, which may be locked as all later ones of this process. */
static int kernel_takes_advice(void)
{
	static int is_known; /* 1 and 2: it does not, it does */

	if (is_known)
		return is_known - 1;
	void *page = memory_map(PAGE_BYTES);
	if (memory_failed(page))
		return 0;
	sys2(SYS_munlock, page, PAGE_BYTES);
	is_known = sys3(SYS_madvise, page, PAGE_BYTES, COLD) ? 1 : 2;
	memory_unmap(page, PAGE_BYTES);
	return is_known - 1;
}

static int is_one_yet(const struct mapping *mapping)
{
	static struct mapping now; /* it is large, and the lock is held */

	return !mapping_find(mapping->start, &now) && now.start == mapping->start &&
	       now.end == mapping->end;
}

/* The second lock takes back what the first one did. */
static enum locked find_kind(const struct mapping *mapping, uint64_t page)
{
	const struct locked_part part = locked_part_of(mapping, page);

	if (locked_set(part.start, part.bytes, LOCKED_ALL))
		return LOCKED_UNKNOWN;
	if (is_one_yet(mapping))
		return LOCKED_ALL;
	return !locked_set(part.start, part.bytes, LOCKED_ON_FAULT) && is_one_yet(mapping) ?
		       LOCKED_ON_FAULT :
		       LOCKED_UNKNOWN;
}

enum locked locked_find(const struct mapping *mapping, uint64_t page)
{
	if (!is_looked_at)
		is_none_locked = own_status("\nVmLck:\t       0") == ' ';
	is_looked_at = 1;
	if (is_none_locked)
		return LOCKED_NOT;
	if (!kernel_takes_advice())
		return LOCKED_ALL;
	int err = (int)sys3(SYS_madvise, page, PAGE_BYTES, COLD);
	if (err == -EINVAL)
		return find_kind(mapping, page);
	return err ? LOCKED_UNKNOWN : LOCKED_NOT;
}
