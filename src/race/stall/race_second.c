/* SPDX-License-Identifier: MIT */
/*
 * race_second.c - the second access: which thread, which instruction, and does it count?
 *
 * A locked instruction ends the stall only of a read-modify-write without LOCK, because
 * one of the two updates is lost. Otherwise the first access may be meant to be atomic
 * too: the locked access is recorded, and the stall continues. Accesses that do not
 * count: code of a runtime, a libc function that reads past its argument, and late hits
 * because SIGTRAP was blocked, whose pc means nothing. Each has a counter, and each
 * explains a changed value.
 */
#include "race/stall/race_second.h"

#include <linux/futex.h>
#include <string.h>
#include <ucontext.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "code/insn/insn.h"
#include "code/insn/insn_back.h"
#include "code/poke/slot_origin.h"
#include "race/race_budget.h"
#include "race/race_modules.h"
#include "race/race_state.h"
#include "race/stall/race_found.h"
#include "race/stall/race_slot.h"
#include "race/watch/race_watch.h"
#include "record/race_region.h"
#include "trap/room.h"

/* A storm of accesses that do not count ends the stall. */
#define HITS_MAX 24u
#define HITS_MORE_MAX 4u

struct found {
	struct race_code code; /* that ends at the pc of the hit */
	uint64_t pc;	       /* of the instruction */
	uint64_t address;
	uint32_t size;
	uint8_t length;
	uint8_t access;
	uint8_t flags; /* enum race_side_flag */
	uint8_t is_decoded;
	uint8_t is_atomic; /* or might be */
	uint8_t is_beyond; /* read, but not what the function was asked for */
};

TRAP_PATH static void wake(struct race_slot *slot)
{
	sys6(SYS_futex, &slot->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

TRAP_PATH static void give_up_after_many(struct race_slot *slot)
{
	uint32_t expected = SLOT_OPEN;

	if (counter_add(&slot->hits, 1u) < HITS_MAX)
		return;
	if (atomic_cas(&slot->state, &expected, SLOT_CLOSED)) {
		slot->ops->pause(slot);
		wake(slot);
	}
}

/*
 * Code that counts. For a memory function of libc, the kind of access that is exact. For what else
 * is in libc, what it stores: it stores into memory of the program where that asked for it.
 */
TRAP_PATH static int counts(const struct trapline_hit *hit, const struct found *found)
{
	switch (found->code.policy) {
	case RACE_CODE_INCLUDED:
		return 1;
	case RACE_CODE_LIBC:
		if (!found->is_decoded ||
		    (found->access & ~found->code.allowed && found->access != RACE_WRITE) ||
		    found->is_beyond)
			return 0;
		return race_is_called_by_included(hit);
	default:
		return 0;
	}
}

TRAP_PATH static void describe(const struct race_module *m, const struct insn_back_candidate *c,
			       struct found *out)
{
	uint64_t left = m->text_end - c->address;
	struct insn insn;

	if (insn_decode(race_code(m, c->address),
			left < INSN_LENGTH_MAX ? (size_t)left : INSN_LENGTH_MAX, &insn))
		return;
	out->is_decoded = 1;
	out->pc = c->address;
	out->address = c->touched;
	out->size = c->size;
	out->length = c->length;
	out->access = c->access;
	out->flags = RACE_DECODED;
	if (insn.flags & INSN_VECTOR && c->size > 8)
		out->flags |= RACE_VECTOR;
	if (insn.kind != INSN_STRING && c->operand < insn.memory_count &&
	    insn.memory[c->operand].flags & (INSN_MEM_CONDITIONAL | INSN_MEM_LANES))
		out->flags |= RACE_CONDITIONAL;
}

/* Which instruction was it? Where several could be, any that is atomic is taken for it. */
TRAP_PATH static void find_insn(const struct trapline_hit *hit, struct found *out)
{
	struct insn_back back;
	struct insn_regs regs;

	memset(out, 0, sizeof(*out));
	race_code_at(hit->ip - 1, &out->code);
	const struct race_module *m = out->code.module;
	if (!m || !m->text_end)
		return;
	race_registers(hit, &regs);
	const struct insn_back_query query = {
		.text = m->code,
		.text_address = m->text_start,
		.text_bytes = m->text_end - m->text_start,
		.watch = hit->address,
		.watch_bytes = hit->len,
		.access = hit->access == TRAPLINE_WRITE ? INSN_WRITE : INSN_READ_WRITE,
		.after = &regs,
	};
	int count = insn_back_x86_64(&query, &back);
	if (count > 0 && back.found >= INSN_BACK_LIKELY) {
		describe(m, &back.candidates[0], out);
		out->is_beyond = race_block_clip(out->pc, &regs, out->address, &out->size) &&
				 out->address + out->size <= hit->address;
		out->is_atomic = (back.candidates[0].flags & INSN_ATOMIC) != 0;
		return;
	}
	for (int i = 0; i < count && i < INSN_BACK_MAX; i++)
		out->is_atomic |= (back.candidates[i].flags & INSN_ATOMIC) != 0;
}

/* The watched bytes as they are now; where they cannot be read, as they were. */
TRAP_PATH static uint64_t value_now(const struct race_slot *slot, const struct trapline_hit *hit)
{
	uint64_t value = 0;

	return sys_read_memory(race.pid, hit->address, &value, hit->len) == (ssize_t)hit->len ?
		       value :
		       slot->old_value;
}

TRAP_PATH static void second_fill(struct race_caught *caught, const struct trapline_hit *hit,
				  uint64_t value, const struct found *found)
{
	struct race_side *side = &caught->side;

	memset(side, 0, sizeof(*side));
	caught->hit_ns = clock_now_ns();
	caught->new_value = value;
	caught->sp = hit->sp;
	side->address = found->is_decoded ? found->address : hit->address;
	side->size = found->is_decoded ? found->size : hit->len;
	side->access = found->access;
	side->flags = found->flags;
	/* What has trapped a watch for writes has written. */
	if (!found->is_decoded && hit->access == TRAPLINE_WRITE)
		side->access = RACE_WRITE;
	race_side_fill(side, hit, found->is_decoded ? found->pc : hit->ip, found->length,
		       &found->code);
}

/* No other thread will ever take this watch away. */
TRAP_PATH static void stop_if_left(struct race_slot *slot, uint64_t now_ns)
{
	if (now_ns > slot->until_ns && race_slot_reclaim(slot, 0, now_ns))
		race_slot_free(slot);
}

TRAP_PATH static void reject(struct race_slot *slot, enum race_counter why)
{
	race_count(why);
	give_up_after_many(slot);
	stop_if_left(slot, clock_now_ns());
}

/* The stalled plain access is an update, of just what the locked one has changed. */
TRAP_PATH static int is_lost_update(const struct race_slot *slot, const struct found *found,
				    uint64_t value)
{
	const struct race_target *t = &slot->target;

	return t->access == RACE_READ_WRITE && t->address == found->address &&
	       t->size == found->size && value != slot->old_value;
}

/* 1: it counts as the second access. */
TRAP_PATH static int take_locked(struct race_slot *slot, const struct trapline_hit *hit,
				 struct found *found)
{
	uint32_t expected = 0;

	atomic_set(&slot->atomic_seen, 1u);
	race_note_atomic(slot->site);
	race_note_atomic(race_place_of(hit->address));
	if (!found->is_decoded || !counts(hit, found))
		return 0;
	uint64_t value = value_now(slot, hit);
	found->flags |= RACE_LOCKED;
	if (is_lost_update(slot, found, value))
		return 1;
	if (value != slot->old_value && atomic_get(&slot->state) == SLOT_OPEN &&
	    atomic_cas(&slot->locked.state, &expected, 1u)) {
		second_fill(&slot->locked, hit, value, found);
		atomic_set(&slot->locked.state, 2u);
	}
	return 0;
}

/*
 * Beside a read, where the watch is for both: see race_cpu_pass_over(), which comes a moment late.
 */
TRAP_PATH static int is_read_beside_read(const struct race_slot *slot,
					 const struct trapline_hit *hit, const struct found *found)
{
	if (slot->target.access & RACE_WRITE || hit->access == TRAPLINE_WRITE)
		return 0;
	return found->is_decoded ? !(found->access & RACE_WRITE) :
				   value_now(slot, hit) == slot->old_value;
}

TRAP_PATH static enum trapline_action take_hit(const struct trapline_hit *hit)
{
	struct race_slot *slot = hit->arg;
	uint32_t expected = SLOT_OPEN;
	struct found found;

	race_count(RACE_HITS);
	race_budget_spend(race.budget.trap_ns, 1);
	atomic_set(&slot->is_explained, 1u);
	if (hit->tid == slot->tid) {
		race_count(RACE_HITS_OWN);
		return TRAPLINE_GO_ON;
	}
	if (hit->async) {
		race_count(RACE_HITS_ASYNC);
		return TRAPLINE_GO_ON;
	}
	if (!trap_has_room(RACE_ROOM_SECOND)) {
		reject(slot, RACE_HITS_NO_ROOM);
		return TRAPLINE_GO_ON;
	}
	find_insn(hit, &found);
	if (is_read_beside_read(slot, hit, &found)) {
		give_up_after_many(slot);
		return TRAPLINE_GO_ON;
	}
	if (found.is_atomic && !take_locked(slot, hit, &found)) {
		reject(slot, RACE_HITS_ATOMIC);
		return TRAPLINE_GO_ON;
	}
	if (!counts(hit, &found)) {
		reject(slot, RACE_HITS_EXCLUDED);
		return TRAPLINE_GO_ON;
	}
	if (!atomic_cas(&slot->state, &expected, SLOT_FILLING)) {
		race_count(RACE_HITS_MORE);
		/* The owner has not reached it yet: busy machine. Others need not trap for that. */
		if (counter_add(&slot->hits, 1u) % HITS_MORE_MAX == HITS_MORE_MAX - 1)
			slot->ops->pause(slot);
		stop_if_left(slot, hit->time_ns);
		return TRAPLINE_GO_ON;
	}
	second_fill(&slot->second, hit, value_now(slot, hit), &found);
	if (atomic_get(&slot->atomic_seen))
		race_note_atomic(slot->second.side.frames[0]);
	atomic_set(&slot->state, SLOT_FILLED);
	wake(slot);
	return TRAPLINE_GO_ON;
}

/*
 * A thread that came past a trap of Trapline made its access in a copy of the instruction. For
 * Trapline, and for code that unwinds its stack, it is behind the instruction itself.
 */
TRAP_PATH static enum trapline_action take_hit_in_copy(const struct trapline_hit *hit,
						       uint64_t origin)
{
	greg_t *pc = &((ucontext_t *)hit->context)->uc_mcontext.gregs[REG_RIP];
	struct trapline_hit there = *hit;
	greg_t in_copy = *pc;

	there.ip = origin;
	*pc = (greg_t)origin;
	enum trapline_action action = take_hit(&there);
	*pc = in_copy;
	return action;
}

TRAP_PATH enum trapline_action race_on_watch(const struct trapline_hit *hit)
{
	uint64_t origin = slot_origin(hit->ip);

	return origin ? take_hit_in_copy(hit, origin) : take_hit(hit);
}
