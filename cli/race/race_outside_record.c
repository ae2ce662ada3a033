/* SPDX-License-Identifier: MIT */
/*
 * race_outside_record.c - see race_outside_record.h.
 *
 * What counts, and how, is as in the detector that lives in a process (src/race/stall/): the report
 * does not differ by where the search was.
 */
#include "cli/race/race_outside_record.h"

#include "base/maps.h"
#include "outside/outside.h"
#include "record/race_region.h"
#include "report/dwarf/symbols.h"

#include <string.h>

#define TOLD_MAX 16u	   /* records of one pair */
#define TOLD_MAX_LOCKED 4u /* right programs have these, too */
#define OWN_STACK_BYTES 65536u
#define REG_SP 7
#define REG_PC 16

static void count(struct race_outside *x, enum race_counter which)
{
	x->row->counters[which]++;
}

/* frames[0] is known. pc: where the stack begins. */
static void unwind(struct race_outside *x, const struct outside_side *from, uint64_t pc,
		   struct race_side *side, uint64_t frames[RACE_FRAMES])
{
	uint64_t regs[RECORD_REGS];
	uint64_t sp = from->regs[REG_SP];
	uint64_t skip = sp - from->stack_at;

	memcpy(regs, from->regs, sizeof(regs));
	regs[REG_PC] = pc;
	memset(frames, 0, RACE_FRAMES * sizeof(*frames));
	if (from->stack_len > RECORD_STACK_MAX || skip >= from->stack_len)
		return;
	size_t n = symbols_unwind(x->symbols, regs, RECORD_REGS, from->stack + skip,
				  from->stack_len - skip, sp, frames, RACE_FRAMES);
	for (size_t i = 1; i < n && frames[i]; i++) {
		side->frames[i] = outside_place(x->engine, frames[i]);
		side->frame_count = (uint8_t)(i + 1);
	}
}

/* A function whose accesses are those that its caller asked for. */
static bool is_block_function(struct race_outside *x, uint64_t pc)
{
	static const char *const parts[] = { "mem", "str", "wcs" };
	struct place place;

	symbols_place(x->symbols, pc, &place);
	for (size_t i = 0; place.function && i < sizeof(parts) / sizeof(parts[0]); i++) {
		const char *name = place.function + strspn(place.function, "_");

		if (!strncmp(name, parts[i], strlen(parts[i])))
			return true;
	}
	return false;
}

/* What libc touches counts as an access of its caller. */
static bool is_for_caller(struct race_outside *x, struct race_side *side,
			  const uint64_t frames[RACE_FRAMES])
{
	bool is_block = is_block_function(x, side->ip);

	if (!(side->flags & RACE_DECODED) || (!is_block && side->access != RACE_WRITE))
		return false;
	side->flags |= is_block ? RACE_BLOCK : RACE_INSIDE;
	for (uint32_t i = 1; i < side->frame_count; i++)
		if (!outside_is_libc(x->engine, frames[i] - 1))
			return outside_is_included(x->engine, frames[i] - 1);
	return false;
}

static void note_atomic(struct race_outside *x, uint64_t place)
{
	struct race_site *site = place > RACE_PLACE_MASK ? race_add_site(x->region, place) : NULL;

	if (site)
		site->is_atomic = 1;
}

/* Beside a locked instruction only what it changed counts, as in race_second.c. */
static bool counts_locked(struct race_outside *x, const struct outside_caught *c,
			  const struct race_side *first, const struct race_side *second)
{
	if (!(second->flags & RACE_LOCKED))
		return true;
	note_atomic(x, first->frames[0]);
	note_atomic(x, outside_place(x->engine, c->slot.part));
	return second->flags & RACE_DECODED && c->slot.second.value != c->slot.before;
}

static bool is_told_enough(struct race_outside *x, uint32_t pair, bool is_locked)
{
	if (pair == RACE_PAIRS) {
		count(x, RACE_LOST_TABLES);
		return false;
	}
	return x->region->pairs[pair].count++ >= (is_locked ? TOLD_MAX_LOCKED : TOLD_MAX);
}

static enum race_memory memory_of(const struct maps_row *m, uint64_t first_sp, uint64_t second_sp)
{
	if (m->mode[3] == 's')
		return RACE_MEMORY_SHARED;
	if (m->inode)
		return RACE_MEMORY_FILE;
	if (!strncmp(m->name, "[heap]", 6))
		return RACE_MEMORY_HEAP;
	if (!strncmp(m->name, "[stack", 6) || maps_has(m, first_sp) || maps_has(m, second_sp))
		return RACE_MEMORY_STACK;
	return RACE_MEMORY_ANONYMOUS;
}

static void fill_memory(struct race_outside *x, const struct outside_caught *c,
			struct race_record *record)
{
	uint64_t first_sp = c->slot.first.regs[REG_SP];
	uint64_t second_sp = c->slot.second.regs[REG_SP];
	struct maps_row row;
	char name[16];

	record->memory = record->place > RACE_PLACE_MASK ? RACE_MEMORY_FILE : RACE_MEMORY_UNKNOWN;
	if (record->memory == RACE_MEMORY_UNKNOWN &&
	    !maps_find(x->pid, record->address, name, sizeof(name), &row))
		record->memory = memory_of(&row, first_sp, second_sp);
	if (record->address - second_sp < OWN_STACK_BYTES)
		record->flags |= RACE_ON_STACK;
}

static void write_record(struct race_outside *x, const struct outside_caught *c,
			 const struct race_side *first, const struct race_side *second)
{
	bool is_locked = (second->flags & RACE_LOCKED) != 0;
	uint32_t pair = race_add_pair(x->region, first->frames[0], second->frames[0]);
	uint64_t sequence;

	count(x, is_locked ? RACE_FOUND_LOCKED : RACE_FOUND);
	if (is_told_enough(x, pair, is_locked)) {
		count(x, RACE_FOUND_REPEATED);
		return;
	}
	struct race_record *record = race_write_begin(x->region, &sequence);
	if (!record) {
		count(x, RACE_LOST_FULL);
		return;
	}
	memset(record, 0, sizeof(*record));
	record->time_ns = c->slot.second.time_ns;
	record->held_since_ns = c->slot.open_ns;
	record->stalled_ns = c->slot.second.time_ns > c->slot.open_ns ?
				     c->slot.second.time_ns - c->slot.open_ns :
				     0;
	record->address = c->slot.part;
	record->place = outside_place(x->engine, c->slot.part);
	record->old_value = c->slot.before;
	record->new_value = c->slot.second.value;
	record->len = (uint32_t)c->slot.part_len;
	record->pid = x->pid;
	record->pair = pair;
	record->first = *first;
	record->second = *second;
	if (record->new_value != record->old_value)
		record->flags |= RACE_CHANGED;
	fill_memory(x, c, record);
	race_write_end(record, sequence);
}

void race_outside_record(struct race_outside *x, const struct outside_caught *c)
{
	uint64_t frames[RACE_FRAMES];
	struct race_side first;
	struct race_side second;
	uint64_t pc;

	outside_first_side(x->engine, c, &first);
	int why = outside_second_side(x->engine, c, &second, &pc);
	if (why) {
		count(x, (enum race_counter)why);
		return;
	}
	unwind(x, &c->slot.second, pc, &second, frames);
	if (outside_is_libc(x->engine, second.ip) && !is_for_caller(x, &second, frames)) {
		count(x, RACE_HITS_EXCLUDED);
		return;
	}
	if (!counts_locked(x, c, &first, &second)) {
		count(x, RACE_HITS_ATOMIC);
		return;
	}
	unwind(x, &c->slot.first, first.ip, &first, frames);
	struct race_site *site = race_find_site(x->region, first.frames[0]);
	if (site)
		site->found++;
	write_record(x, c, &first, &second);
}
