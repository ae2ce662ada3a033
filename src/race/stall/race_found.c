/* SPDX-License-Identifier: MIT */
/* race_found.c - see race_found.h. */
#include "race/stall/race_found.h"

#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "race/race_modules.h"
#include "race/race_state.h"
#include "race/stall/race_memory.h"
#include "record/race_region.h"
#include "trap/stack.h"

/* What lies so close above the stack pointer is most often the thread's own. */
#define OWN_STACK_BYTES 65536u
#define CALLERS_MAX 16u	   /* functions of libc that call each other */
#define TOLD_MAX 16u	   /* records of one pair */
#define TOLD_MAX_LOCKED 4u /* right programs have these, too */

TRAP_PATH static void copy_name(char *name)
{
	sys5(SYS_prctl, 16 /* PR_GET_NAME */, name, 0, 0, 0);
	name[15] = '\0';
}

TRAP_PATH static void copy_code(struct race_side *side, uint64_t pc, const struct race_module *m)
{
	if (!m || pc < m->text_start || pc >= m->text_end)
		return;
	uint64_t before = pc - m->text_start < RACE_CODE_BEFORE ? pc - m->text_start :
								  RACE_CODE_BEFORE;
	uint64_t bytes = m->text_end - (pc - before);
	bytes = bytes < RACE_CODE ? bytes : RACE_CODE;
	side->code_before = (uint8_t)before;
	side->code_bytes = (uint8_t)bytes;
	memcpy(side->code, race_code(m, pc - before), bytes);
}

/* The side may be in shared memory: nothing is read back from there. */
TRAP_PATH void race_side_fill(struct race_side *side, const struct trapline_hit *hit, uint64_t pc,
			      unsigned int length, const struct race_code *code)
{
	uint64_t frames[RACE_FRAMES];
	uint32_t n = stack_unwind(hit->ip, frames, RACE_FRAMES);
	uint32_t count = 1;

	side->ip = pc;
	side->tid = hit->tid;
	side->length = (uint8_t)length;
	copy_name(side->thread);
	copy_code(side, pc, code->module);
	side->frames[0] = race_place_in(code->module, pc);
	for (; count < n && frames[count]; count++)
		side->frames[count] = race_place_of(frames[count]);
	side->frame_count = (uint8_t)count;
	if (code->module && code->module->policy == RACE_CODE_LIBC)
		side->flags |= code->allowed ? RACE_BLOCK : RACE_INSIDE;
}

/* What libc touches counts as an access of its caller: a runtime's does not. */
TRAP_PATH int race_is_called_by_included(const struct trapline_hit *hit)
{
	uint64_t frames[CALLERS_MAX];
	uint32_t n = stack_unwind(hit->ip, frames, CALLERS_MAX);

	for (uint32_t i = 1; i < n && frames[i]; i++) {
		const struct race_module *m = race_module_of(frames[i]);

		if (!m || m->policy != RACE_CODE_LIBC)
			return m && m->policy == RACE_CODE_INCLUDED;
	}
	return 0;
}

/* A flag of the first side; 0: it stores nothing, or what is not known. */
TRAP_PATH static uint8_t what_is_stored(const struct race_target *t, uint64_t there)
{
	uint64_t mask = t->part_len == 8 ? ~0ull : (1ull << t->part_len * 8) - 1;

	if (!t->is_stored_known)
		return 0;
	uint64_t stored = t->stored >> (t->part - t->address) * 8;
	return (stored & mask) == (there & mask) ? RACE_STORES_SAME : RACE_STORES_OTHER;
}

TRAP_PATH static void fill_second(struct race_record *record, const struct race_slot *slot,
				  const struct race_caught *second, uint64_t now_value)
{
	memset(&record->second, 0, sizeof(record->second));
	record->new_value = second ? second->new_value : now_value;
	if (second) {
		record->second = second->side;
		if (slot->target.part - second->sp < OWN_STACK_BYTES)
			record->flags |= RACE_ON_STACK;
	} else {
		record->flags |= RACE_UNKNOWN_ORIGIN;
	}
	if (record->new_value != record->old_value)
		record->flags |= RACE_CHANGED;
	if (slot->atomic_seen)
		record->flags |= RACE_ATOMIC_SEEN;
	if (!(record->flags & RACE_CHANGED))
		record->first.flags |= what_is_stored(&slot->target, record->old_value);
}

TRAP_PATH void race_fill_first(struct race_record *record, const struct race_target *t,
			       const struct trapline_hit *hit, const struct race_code *code)
{
	memset(&record->first, 0, sizeof(record->first));
	record->first.address = t->address;
	record->first.size = t->size;
	record->first.access = t->access;
	record->first.flags = t->flags;
	race_side_fill(&record->first, hit, hit->ip, t->length, code);
}

TRAP_PATH void race_found_record(const struct trapline_hit *hit, const struct race_slot *slot,
				 const struct race_code *code, const struct race_caught *second,
				 uint64_t now_value)
{
	uint32_t pair = race_add_pair(race.region, slot->site, second ? second->side.frames[0] : 0);
	int is_locked = second == &slot->locked;
	uint64_t sequence;

	race_count(is_locked ? RACE_FOUND_LOCKED : RACE_FOUND);
	if (pair == RACE_PAIRS)
		race_count(RACE_LOST_TABLES);
	else if (counter_add(&race.region->pairs[pair].count, 1u) >=
		 (is_locked ? TOLD_MAX_LOCKED : TOLD_MAX)) {
		race_count(RACE_FOUND_REPEATED);
		return;
	}
	struct race_record *record = race_write_begin(race.region, &sequence);
	if (!record) {
		race_count(RACE_LOST_FULL);
		return;
	}
	const struct race_target *t = &slot->target;
	record->time_ns = clock_now_ns();
	record->held_since_ns = slot->opened_ns;
	/*
	 * A thread that comes while the watch is put on all threads was there before the stall
	 * began.
	 */
	uint64_t end_ns = second ? second->hit_ns : record->time_ns;
	record->stalled_ns = end_ns > slot->opened_ns ? end_ns - slot->opened_ns : 0;
	record->address = t->part;
	record->place = race_place_of(t->part);
	record->old_value = slot->old_value;
	record->len = t->part_len;
	record->flags = 0;
	record->pid = race.pid;
	record->pair = pair;
	race_fill_first(record, t, hit, code);
	fill_second(record, slot, second, now_value);
	race_tell_memory(record, hit->sp, second ? second->sp : 0);
	race_write_end(record, sequence);
	race_tell_reader();
}
