/* SPDX-License-Identifier: MIT */
/*
 * heap_pool.c - see heap_pool.h.
 *
 * The free slots of one size are in a queue, first in, first out: a freed block keeps its page
 * without access as long as possible. Rules of the queue: 1. A cell has a turn; a thread takes a
 * turn by a compare-and-exchange of an end, and then owns the cell until it writes the next turn.
 * 2. There are as many cells as slots, so that a slot always has room. 3. A thread that is
 * interrupted in between blocks nothing: the others see an empty queue until it continues.
 */
#include "heap/heap_pool.h"

#include <string.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/table_size.h"

#define ACCESS (PROT_READ | PROT_WRITE)
#define THIN_MOST (1u << 20)

/*
 * All are 0 at first, so that no page is touched before it is used: both numbers are less that of
 * the cell.
 */
struct cell {
	uint32_t turn; /* less the first one at which it may be taken */
	uint32_t slot;
};

struct size_class {
	size_t room;
	uint32_t count;
	uint32_t reserved;
	uintptr_t start; /* of the page before its first slot */
	uintptr_t end;
	struct heap_slot *slots;
	struct cell *cells;
	uint32_t head; /* the next turn to take */
	uint32_t tail; /* the next turn to give */
	uint32_t used; /* slots that were taken once, from the first on */
};

/* Powers of two, so that turns may wrap. 32 MiB for blocks. */
static struct size_class classes[HEAP_CLASSES_MOST] = {
	{ .room = PAGE_BYTES, .count = HEAP_PAGE_SLOTS },
	{ .room = 4 * PAGE_BYTES, .count = TABLE_SIZE(256u, 2u) },
	{ .room = 16 * PAGE_BYTES, .count = TABLE_SIZE(64u, 2u) },
	{ .room = 64 * PAGE_BYTES, .count = TABLE_SIZE(16u, 2u) },
	/* What allocators of a program's own take at once. */
	{ .room = 256 * PAGE_BYTES, .count = TABLE_SIZE(4u, 2u) },
};

/* Where growth is searched: the program's own blocks, which would be elsewhere without us. */
static const struct size_class growth_classes[HEAP_CLASSES_MOST] = {
	{ .room = 64, .count = TABLE_SIZE(65536u, 2u) },
	{ .room = 256, .count = TABLE_SIZE(32768u, 2u) },
	{ .room = 1024, .count = TABLE_SIZE(16384u, 2u) },
	{ .room = PAGE_BYTES, .count = TABLE_SIZE(8192u, 2u) },
	{ .room = 4 * PAGE_BYTES, .count = TABLE_SIZE(2048u, 2u) },
	{ .room = 16 * PAGE_BYTES, .count = TABLE_SIZE(512u, 2u) },
	{ .room = 64 * PAGE_BYTES, .count = TABLE_SIZE(128u, 2u) },
	{ .room = 256 * PAGE_BYTES, .count = TABLE_SIZE(64u, 2u) },
	{ .room = 1024 * PAGE_BYTES, .count = TABLE_SIZE(16u, 2u) },
	{ .room = 4096 * PAGE_BYTES, .count = TABLE_SIZE(8u, 2u) },
};
static uint32_t class_count = HEAP_CLASSES;
static size_t gap = PAGE_BYTES; /* between slots */

static size_t stride_of(const struct size_class *c)
{
	return c->room + gap;
}

static size_t span_of(const struct size_class *c)
{
	return stride_of(c) * c->count + PAGE_BYTES;
}

static void fill_class(struct size_class *c, uintptr_t at)
{
	c->start = at;
	c->end = at + span_of(c);
	c->tail = c->count;
}

/* What never changes is written when the slot is asked for, by each thread the same. */
static struct heap_slot *slot_at(struct size_class *c, size_t i)
{
	struct heap_slot *slot = &c->slots[i];

	if (counter_get(&slot->base))
		return slot;
	slot->size_class = (uint32_t)(c - classes);
	slot->number = (uint32_t)i;
	slot->room = c->room;
	atomic_set(&slot->base, c->start + PAGE_BYTES + i * stride_of(c));
	return slot;
}

static uint32_t turn_of(const struct size_class *c, const struct cell *cell)
{
	return atomic_get(&cell->turn) + (uint32_t)(cell - c->cells) + 1;
}

static void set_turn(const struct size_class *c, struct cell *cell, uint32_t turn)
{
	atomic_set(&cell->turn, turn - (uint32_t)(cell - c->cells) - 1);
}

static void note_used(struct size_class *c, uint32_t i)
{
	uint32_t used = atomic_get(&c->used);

	while (used <= i && !atomic_cas(&c->used, &used, i + 1))
		;
}

int heap_pool_start(struct heap_range *range, uint64_t *pool_bytes)
{
	const int access = heap_is_growth ? ACCESS : PROT_NONE;
	size_t bytes = 0;
	size_t rows = 0;

	*pool_bytes = 0;
	if (heap_is_growth) {
		memcpy(classes, growth_classes, sizeof(classes));
		class_count = HEAP_CLASSES_MOST;
		gap = 0;
	}
	for (uint32_t i = 0; i < class_count; i++) {
		bytes += span_of(&classes[i]);
		rows += classes[i].count;
		*pool_bytes += classes[i].room * classes[i].count;
	}
	const size_t table_bytes = rows * (sizeof(struct heap_slot) + sizeof(struct cell));
	char *table = heap_is_growth ? memory_map_sparse(table_bytes) : memory_map(table_bytes);
	if (memory_failed(table))
		return memory_error(table);
	/* What has no access is not accounted. */
	void *pool = (void *)sys6(
		SYS_mmap, 0, bytes, access,
		MAP_PRIVATE | MAP_ANONYMOUS | (heap_is_growth ? MAP_NORESERVE : 0), -1, 0);
	if (memory_failed(pool)) {
		memory_unmap(table, table_bytes);
		return memory_error(pool);
	}
	uintptr_t at = (uintptr_t)pool;
	for (uint32_t i = 0; i < class_count; i++) {
		struct size_class *c = &classes[i];

		c->slots = (struct heap_slot *)table;
		table += c->count * sizeof(struct heap_slot);
		c->cells = (struct cell *)table;
		table += c->count * sizeof(struct cell);
		fill_class(c, at);
		at = c->end;
	}
	*range = (struct heap_range){ (uintptr_t)pool, bytes };
	return 0;
}

/* ---- the queue ---- */

static struct heap_slot *pop(struct size_class *c)
{
	uint32_t turn = atomic_get(&c->head);

	for (;;) {
		struct cell *cell = &c->cells[turn % c->count];
		int32_t ahead = (int32_t)(turn_of(c, cell) - (turn + 1));

		if (ahead < 0)
			return NULL;
		if (ahead > 0) {
			turn = atomic_get(&c->head);
			continue;
		}
		if (!atomic_cas(&c->head, &turn, turn + 1))
			continue;
		uint32_t slot = cell->slot + (uint32_t)(cell - c->cells);
		set_turn(c, cell, turn + c->count);
		note_used(c, slot);
		return slot_at(c, slot);
	}
}

void heap_pool_push(struct heap_slot *slot)
{
	struct size_class *c = &classes[slot->size_class];
	uint32_t turn = atomic_get(&c->tail);

	for (;;) {
		struct cell *cell = &c->cells[turn % c->count];
		int32_t ahead = (int32_t)(turn_of(c, cell) - turn);

		if (ahead < 0)
			return; /* a thread died in pop(): the slot is lost */
		if (ahead > 0) {
			turn = atomic_get(&c->tail);
			continue;
		}
		if (!atomic_cas(&c->tail, &turn, turn + 1))
			continue;
		cell->slot = (uint32_t)(slot - c->slots) - (uint32_t)(cell - c->cells);
		set_turn(c, cell, turn + 1);
		return;
	}
}

struct heap_slot *heap_pool_pop(size_t bytes, bool *is_full)
{
	*is_full = false;
	for (uint32_t i = 0; i < class_count; i++) {
		if (bytes > classes[i].room)
			continue;
		struct heap_slot *slot = pop(&classes[i]);
		if (slot)
			return slot;
		*is_full = true;
		return NULL;
	}
	return NULL;
}

/*
 * Where a half is in use, one of 4 is taken; of what is left a half later, one of 16; and so on. So
 * each half lasts twice as long as the one before.
 */
uint32_t heap_pool_thin(size_t bytes)
{
	uint32_t i = 0;

	while (i < class_count && bytes > classes[i].room)
		i++;
	if (i == class_count)
		return 1; /* it is too large, which is counted */
	const struct size_class *c = &classes[i];
	uint32_t left = atomic_get(&c->tail) - atomic_get(&c->head);
	uint32_t thin = 1;

	if (!left || left > c->count)
		return 0;
	for (uint32_t half = c->count / 2; left <= half && thin < THIN_MOST; half /= 2)
		thin *= 4;
	return thin;
}

/* ---- addresses ---- */

struct heap_slot *heap_pool_slot(uintptr_t address)
{
	for (uint32_t i = 0; i < class_count; i++) {
		struct size_class *c = &classes[i];

		if (address - c->start >= c->end - c->start)
			continue;
		uintptr_t from = address - c->start - PAGE_BYTES;
		return from < c->end - c->start ? slot_at(c, from / stride_of(c)) : NULL;
	}
	return NULL;
}

struct heap_slot *heap_pool_next(const struct heap_slot *slot)
{
	struct size_class *c = &classes[slot->size_class];
	size_t next = (size_t)(slot - c->slots) + 1;

	return next < c->count ? slot_at(c, next) : NULL;
}

uint32_t heap_pool_used(uint32_t size_class)
{
	return atomic_get(&classes[size_class].used);
}

struct heap_slot *heap_pool_at(uint32_t size_class, uint32_t number)
{
	return slot_at(&classes[size_class], number);
}

void heap_pool_each(void (*call)(struct heap_slot *slot, void *arg), void *arg)
{
	for (uint32_t i = 0; i < class_count; i++)
		for (uint32_t k = 0; k < atomic_get(&classes[i].used); k++)
			if (atomic_get(&classes[i].slots[k].state) != HEAP_SLOT_NEW)
				call(&classes[i].slots[k], arg);
}
