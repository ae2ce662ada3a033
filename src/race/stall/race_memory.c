/* SPDX-License-Identifier: MIT */
/*
 * race_memory.c - the kind of memory of a race: a variable, a heap block, a stack, shared
 * memory.
 *
 * Determined only after a race was found, which is rare: it reads the memory map of the
 * process.
 */
#include "race/stall/race_memory.h"

#include <fcntl.h>
#include <string.h>

#include "base/own_fd.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "race/race.h"
#include "race/race_modules.h"
#include "race/race_state.h"
#include "record/race_region.h"

#define NAME_BYTES 8
#define READS_MAX 4096

static race_heap_finder find_block;

void race_use_heap(race_heap_finder find)
{
	find_block = find;
}

uint64_t *race_counter_of(enum race_counter what)
{
	return race.process ? &race.process->counters[what] : NULL;
}

/* A line of /proc/self/maps: from-to perms offset dev inode name. */
struct mapping {
	uint64_t from;
	uint64_t to;
	uint64_t inode;
	char permissions[4];
	char name[NAME_BYTES]; /* as much of it */
};

enum field {
	FIELD_FROM,
	FIELD_TO,
	FIELD_PERMISSIONS,
	FIELD_OFFSET,
	FIELD_DEVICE,
	FIELD_INODE,
	FIELD_NAME,
};

struct line {
	struct mapping mapping;
	unsigned int field;
	unsigned int at; /* in it */
	char last;
};

TRAP_PATH static uint64_t append_digit(uint64_t number, char c, unsigned int base)
{
	return number * base + (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

TRAP_PATH static void take_char(struct line *line, char c)
{
	struct mapping *m = &line->mapping;
	char last = line->last;

	line->last = c;
	if (line->field < FIELD_NAME && (c == ' ' || (c == '-' && line->field == FIELD_FROM))) {
		line->field++;
		line->at = 0;
		return;
	}
	/* Several spaces stand before the name. */
	if (line->field == FIELD_NAME && c == ' ' && last == ' ')
		return;
	if (line->field == FIELD_FROM)
		m->from = append_digit(m->from, c, 16);
	else if (line->field == FIELD_TO)
		m->to = append_digit(m->to, c, 16);
	else if (line->field == FIELD_INODE)
		m->inode = append_digit(m->inode, c, 10);
	else if (line->field == FIELD_PERMISSIONS && line->at < sizeof(m->permissions))
		m->permissions[line->at++] = c;
	else if (line->field == FIELD_NAME && line->at < sizeof(m->name))
		m->name[line->at++] = c;
}

/* 0: it is in no mapping. */
TRAP_PATH static int find_mapping(uint64_t address, struct mapping *out)
{
	char text[512];
	struct line line;
	int found = 0;
	int fd = own_fd_open("/proc/self/maps", O_RDONLY);

	memset(&line, 0, sizeof(line));
	for (int reads = 0; fd >= 0 && !found && reads < READS_MAX; reads++) {
		ssize_t n = sys_read(fd, text, sizeof(text));

		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n && !found; i++) {
			if (text[i] != '\n') {
				take_char(&line, text[i]);
				continue;
			}
			found = address >= line.mapping.from && address < line.mapping.to;
			*out = line.mapping;
			memset(&line, 0, sizeof(line));
		}
	}
	if (fd >= 0)
		sys_close(fd);
	return found;
}

TRAP_PATH static int memory_begins_with(const char name[NAME_BYTES], const char *beginning)
{
	for (int i = 0; beginning[i]; i++)
		if (i == NAME_BYTES || name[i] != beginning[i])
			return 0;
	return 1;
}

TRAP_PATH static int is_in(const struct mapping *m, uint64_t address)
{
	return address >= m->from && address < m->to;
}

TRAP_PATH static enum race_memory memory_kind_of(const struct mapping *m, uint64_t first_sp,
						 uint64_t second_sp)
{
	if (m->permissions[3] == 's')
		return RACE_MEMORY_SHARED;
	if (m->inode)
		return RACE_MEMORY_FILE;
	if (memory_begins_with(m->name, "[heap]"))
		return RACE_MEMORY_HEAP;
	if (memory_begins_with(m->name, "[stack") || is_in(m, first_sp) || is_in(m, second_sp))
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
	struct mapping m;

	record->memory = is_global ? RACE_MEMORY_FILE : RACE_MEMORY_UNKNOWN;
	record->has_heap = 0;
	if ((!is_global || record->flags & RACE_UNKNOWN_ORIGIN) &&
	    find_mapping(record->address, &m))
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
