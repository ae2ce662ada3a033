/* SPDX-License-Identifier: MIT */
/*
 * race_memory.c - the kind of memory of a race: a variable, a heap block, a stack, shared
 * memory.
 *
 * Determined only after a race was found, which is rare: it reads the memory map of the
 * process.
 */
#include "race/stall/race_memory.h"

#include <string.h>

#include "base/maps.h"
#include "base/trap_path.h"
#include "race/race.h"
#include "race/race_modules.h"
#include "race/race_state.h"
#include "record/race_region.h"

#define NAME_BYTES 8

static race_heap_finder find_block;

void race_use_heap(race_heap_finder find)
{
	find_block = find;
}

uint64_t *race_counter_of(enum race_counter what)
{
	return race.process ? &race.process->counters[what] : NULL;
}

TRAP_PATH static int memory_begins_with(const char *name, const char *beginning)
{
	while (*beginning && *name == *beginning)
		name++, beginning++;
	return !*beginning;
}

TRAP_PATH static enum race_memory memory_kind_of(const struct maps_row *m, uint64_t first_sp,
						 uint64_t second_sp)
{
	if (m->mode[3] == 's')
		return RACE_MEMORY_SHARED;
	if (m->inode)
		return RACE_MEMORY_FILE;
	if (memory_begins_with(m->name, "[heap]"))
		return RACE_MEMORY_HEAP;
	if (memory_begins_with(m->name, "[stack") || maps_has(m, first_sp) ||
	    maps_has(m, second_sp))
		return RACE_MEMORY_STACK;
	return RACE_MEMORY_ANONYMOUS;
}

/* The name that a thread has now; it may have had another when it allocated. */
TRAP_PATH static void read_thread_name(struct race_heap_event *event)
{
	memset(event->thread, 0, sizeof(event->thread));
	ssize_t n =
		race_read_of_thread(event->tid, "/comm", event->thread, sizeof(event->thread) - 1);
	for (ssize_t i = 0; i < n; i++)
		if (event->thread[i] == '\n')
			event->thread[i] = '\0';
}

TRAP_PATH static void complete(struct race_heap_event *event)
{
	for (uint32_t i = 0; i < event->frame_count && i < RACE_HEAP_FRAMES; i++)
		event->frames[i] = race_place_of(event->frames[i]);
	if (event->time_ns)
		read_thread_name(event);
}

/* In a block that is in use, or was until now. */
TRAP_PATH static int tell_block(struct race_record *record)
{
	memset(&record->heap, 0, sizeof(record->heap));
	if (!find_block || find_block(record->address, &record->heap))
		return 0;
	complete(&record->heap.allocated);
	complete(&record->heap.freed);
	record->has_heap = 1;
	return 1;
}

TRAP_PATH void race_tell_memory(struct race_record *record, uint64_t first_sp, uint64_t second_sp)
{
	int is_global = record->place > RACE_PLACE_MASK;
	char name[NAME_BYTES];
	struct maps_row m;

	record->memory = is_global ? RACE_MEMORY_FILE : RACE_MEMORY_UNKNOWN;
	record->has_heap = 0;
	if ((!is_global || record->flags & RACE_UNKNOWN_ORIGIN) &&
	    !maps_find(0, record->address, name, sizeof(name), &m))
		record->memory = memory_kind_of(&m, first_sp, second_sp);
	if (record->memory == RACE_MEMORY_SHARED && record->flags & RACE_UNKNOWN_ORIGIN)
		record->flags |= RACE_SHARED_MAPPING;
	if (is_global)
		return;
	if (tell_block(record)) {
		int is_stack = record->memory == RACE_MEMORY_STACK && record->heap.freed.time_ns;
		record->memory = is_stack ? RACE_MEMORY_STACK : RACE_MEMORY_HEAP;
		record->has_heap = !is_stack;
	} else if (race.region->settings.is_heap && record->memory != RACE_MEMORY_STACK &&
		   record->memory != RACE_MEMORY_FILE) {
		race_count(RACE_HEAP_UNKNOWN);
	}
}
