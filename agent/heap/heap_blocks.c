/* SPDX-License-Identifier: MIT */
/*
 * heap_blocks.c - see heap_blocks.h.
 *
 * Rows are in groups, and the page in which a block begins determines its groups. An
 * address inside a block is looked up by going back page by page, and memory is used
 * where the heap is. Large blocks, which would be many pages back, have a table of their
 * own that is searched.
 *
 * Rules: 1. A thread that changes a row makes its version odd by a compare-and-exchange,
 * and even again at the end; a row that is odd is left alone. 2. A reader compares the
 * version before and after. 3. An address once written into a row is replaced but never
 * cleared: a group with an empty row is the last in which a block of its pages can be.
 */
#include "agent/heap/heap_blocks.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/atomic.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/table_size.h"

#define ROWS TABLE_SIZE(16u, 2u)       /* of a group */
#define GROUPS_MAX TABLE_SIZE(32u, 2u) /* of a page: 512 blocks of 8 bytes */
#define LARGE_BYTES 65536u
#define LARGE_GROUPS_LOG2 TABLE_SIZE(10u, 0u)
#define PAGE_LOG2 12u
#define TRIES 8

struct row {
	uint32_t version; /* odd: being written */
	uint32_t reserved;
	struct heap_block block; /* start 0: never used */
};

struct group {
	struct row rows[ROWS];
};

struct table {
	struct group *groups;
	uint32_t mask;
	uint32_t is_used;
};

struct heap_blocks {
	struct table small;
	struct table large;
	uint64_t lost_ns; /* when the latest block that has no row was allocated */
};

static int table_open(struct table *t, uint32_t groups_log2)
{
	size_t bytes = sizeof(struct group) << groups_log2;
	void *p = memory_map_sparse(bytes);

	if (memory_failed(p))
		return memory_error(p);
	t->groups = p;
	t->mask = (1u << groups_log2) - 1;
	return 0;
}

struct heap_blocks *heap_blocks_new(uint32_t groups_log2)
{
	struct heap_blocks *blocks = memory_map(sizeof(*blocks));

	if (memory_failed(blocks) || table_open(&blocks->small, groups_log2) ||
	    table_open(&blocks->large, LARGE_GROUPS_LOG2))
		return NULL;
	return blocks;
}

/* The n-th group of a page. */
static struct group *group_of(const struct table *t, uint64_t page, uint32_t n)
{
	uint64_t hash = (page + ((uint64_t)n << 40)) * HASH_MIX;

	return &t->groups[(hash ^ hash >> 32) & t->mask];
}

static bool take(struct row *row, uint32_t version)
{
	return !(version & 1) && atomic_cas(&row->version, &version, version + 1);
}

static void give(struct row *row)
{
	atomic_set(&row->version, row->version + 1);
}

static bool is_freed(const struct row *row)
{
	return counter_get(&row->block.freed.time_ns) != 0;
}

/* Where a new block may go: its own former row, an empty one, or the one that was freed first. */
struct choice {
	struct row *row;
	uint32_t version;
	uint64_t start; /* that the row had */
	uint64_t freed_ns;
};

static void consider(struct choice *best, struct row *row)
{
	uint32_t version = atomic_get(&row->version);
	uint64_t start = counter_get(&row->block.start);
	uint64_t freed_ns = counter_get(&row->block.freed.time_ns);

	if (version & 1 || (start && !freed_ns))
		return;
	if (best->row && (!best->start || (start && best->freed_ns <= freed_ns)))
		return;
	*best = (struct choice){ row, version, start, freed_ns };
}

/* true: the block of that start is known, and best is its row. */
static bool look_in(struct group *g, uint64_t start, struct choice *best, bool *is_last)
{
	for (uint32_t i = 0; i < ROWS; i++) {
		struct row *row = &g->rows[i];
		uint32_t version = atomic_get(&row->version);
		uint64_t held = counter_get(&row->block.start);

		if (held == start && !(version & 1)) {
			*best = (struct choice){ row, version, held, 0 };
			return true;
		}
		*is_last |= !held;
		consider(best, row);
	}
	return false;
}

static struct table *table_of(struct heap_blocks *blocks, uint64_t size)
{
	return size < LARGE_BYTES ? &blocks->small : &blocks->large;
}

void heap_blocks_lose(struct heap_blocks *blocks, uint64_t time_ns)
{
	uint64_t held = atomic_get(&blocks->lost_ns);

	for (int tries = 0; tries < TRIES && held < time_ns; tries++)
		if (atomic_cas(&blocks->lost_ns, &held, time_ns))
			return;
}

static int heap_blocks_insert(struct heap_blocks *blocks, uint64_t start, uint64_t size,
			      const struct heap_event *allocated)
{
	struct table *t = table_of(blocks, size);

	if (!counter_get(&t->is_used))
		atomic_set(&t->is_used, 1u);
	for (int tries = 0; tries < TRIES; tries++) {
		struct choice best = { NULL, 0, 0, 0 };
		bool is_last = false;

		for (uint32_t n = 0; n < GROUPS_MAX && !is_last; n++)
			if (look_in(group_of(t, start >> PAGE_LOG2, n), start, &best, &is_last))
				break;
		if (!best.row)
			return -ENOSPC;
		if (!take(best.row, best.version))
			continue;
		best.row->block = (struct heap_block){ start, size, *allocated, { 0, 0, 0 } };
		give(best.row);
		return 0;
	}
	return -ENOSPC;
}

int heap_blocks_add(struct heap_blocks *blocks, uint64_t start, uint64_t size,
		    const struct heap_event *allocated)
{
	int err = heap_blocks_insert(blocks, start, size, allocated);

	if (err)
		heap_blocks_lose(blocks, allocated->time_ns);
	return err;
}

/*
 * The row of a block by its start; in use, or freed. A row that another thread fills can still show
 * that start, in part: it is left out.
 */
static struct row *find_row(const struct table *t, uint64_t start, bool freed, uint32_t *version)
{
	bool is_last = false;

	for (uint32_t n = 0; n < GROUPS_MAX && !is_last; n++) {
		struct group *g = group_of(t, start >> PAGE_LOG2, n);

		for (uint32_t i = 0; i < ROWS; i++) {
			struct row *row = &g->rows[i];

			*version = atomic_get(&row->version);
			uint64_t held = counter_get(&row->block.start);
			if (!(*version & 1) && held == start && is_freed(row) == freed)
				return row;
			is_last |= !held;
		}
	}
	return NULL;
}

/* Another thread may want a row that is freed, for another block: then it is looked for again. */
static int set_freed(struct heap_blocks *blocks, uint64_t start, bool was_freed,
		     const struct heap_event *freed)
{
	for (int tries = 0; tries < TRIES; tries++) {
		uint32_t version;
		struct row *row = find_row(&blocks->small, start, was_freed, &version);

		if (!row)
			row = find_row(&blocks->large, start, was_freed, &version);
		if (!row)
			return -ENOENT;
		if (!take(row, version))
			continue;
		row->block.freed = *freed;
		give(row);
		return 0;
	}
	return -ENOENT;
}

int heap_blocks_free(struct heap_blocks *blocks, uint64_t start, const struct heap_event *freed)
{
	return set_freed(blocks, start, false, freed);
}

void heap_blocks_revive(struct heap_blocks *blocks, uint64_t start)
{
	static const struct heap_event never;

	set_freed(blocks, start, true, &never);
}

static bool copy_row(const struct row *row, struct heap_block *out)
{
	for (int tries = 0; tries < TRIES; tries++) {
		uint32_t version = atomic_get(&row->version);

		*out = row->block;
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (!(version & 1) && atomic_get(&row->version) == version)
			return true;
	}
	return false;
}

static bool is_better(const struct heap_block *new, const struct heap_block *old)
{
	if (!old->start)
		return true;
	if (!new->freed.time_ns != !old->freed.time_ns)
		return !new->freed.time_ns;
	return new->freed.time_ns ? new->freed.time_ns > old->freed.time_ns :
				    new->allocated.time_ns > old->allocated.time_ns;
}

/* true: it has an empty row. */
static bool find_in(const struct group *g, uint64_t address, struct heap_block *best)
{
	bool has_empty = false;

	for (uint32_t i = 0; i < ROWS; i++) {
		const struct row *row = &g->rows[i];
		struct heap_block block;
		uint64_t start = counter_get(&row->block.start);

		has_empty |= !start;
		if (!start || address - start >= counter_get(&row->block.size) ||
		    !copy_row(row, &block) || address - block.start >= block.size)
			continue;
		if (is_better(&block, best))
			*best = block;
	}
	return has_empty;
}

int heap_blocks_find(const struct heap_blocks *blocks, uint64_t address, struct heap_block *out)
{
	uint64_t page = address >> PAGE_LOG2;
	struct heap_block best;

	memset(&best, 0, sizeof(best));
	for (uint64_t back = 0; back <= LARGE_BYTES >> PAGE_LOG2 && back <= page; back++)
		for (uint32_t n = 0; n < GROUPS_MAX; n++)
			if (find_in(group_of(&blocks->small, page - back, n), address, &best))
				break;
	for (uint32_t n = 0; counter_get(&blocks->large.is_used) && n <= blocks->large.mask; n++)
		find_in(&blocks->large.groups[n], address, &best);
	/* A block without a row may be there since then. */
	if (best.freed.time_ns && best.freed.time_ns <= atomic_get(&blocks->lost_ns))
		return -ENOENT;
	if (!best.start)
		return -ENOENT;
	*out = best;
	return 0;
}
