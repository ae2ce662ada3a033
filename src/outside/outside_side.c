/* SPDX-License-Identifier: MIT */
/*
 * outside_side.c - both accesses of a pair, by the registers of their threads and the text of their
 * files, which is without traps.
 */
#include "code/insn/insn.h"
#include "code/insn/insn_back.h"
#include "code/insn/insn_stored.h"
#include "outside/outside_priv.h"
#include "record/race_region.h"

#include <string.h>

static uint64_t place_in(const struct outside_module *m, uint64_t address)
{
	if (!m || !m->row)
		return address & RACE_PLACE_MASK;
	return (uint64_t)m->row << RACE_PLACE_BITS | ((address - m->bias) & RACE_PLACE_MASK);
}

uint64_t outside_place(struct outside *o, uint64_t address)
{
	for (uint32_t i = 0; i < o->code.module_count; i++) {
		const struct outside_module *m = &o->code.modules[i];

		if (address - m->start < m->end - m->start)
			return place_in(m, address);
	}
	return address & RACE_PLACE_MASK;
}

bool outside_is_libc(struct outside *o, uint64_t address)
{
	return outside_policy_at(&o->code, address) == OUTSIDE_LIBC;
}

bool outside_is_included(struct outside *o, uint64_t address)
{
	return outside_policy_at(&o->code, address) == OUTSIDE_INCLUDED;
}

static const uint8_t *text_of(const struct outside_module *m, uint64_t address, size_t *bytes)
{
	uint64_t at = m ? address - m->file.start : 0;

	if (!m || !m->text || at >= m->text_bytes)
		return NULL;
	*bytes = m->text_bytes - at;
	return m->text + at;
}

static void copy_code(struct race_side *side, const struct outside_module *m, uint64_t pc)
{
	size_t bytes;
	const uint8_t *text = text_of(m, pc, &bytes);

	if (!text)
		return;
	uint64_t at = pc - m->file.start;
	uint64_t before = at < RACE_CODE_BEFORE ? at : RACE_CODE_BEFORE;
	bytes += before;
	bytes = bytes < RACE_CODE ? bytes : RACE_CODE;
	side->code_before = (uint8_t)before;
	side->code_bytes = (uint8_t)bytes;
	memcpy(side->code, text - before, bytes);
}

static void take_registers(const struct outside_side *from, struct insn_regs *out)
{
	memset(out, 0, sizeof(*out));
	memcpy(out->r, from->regs, sizeof(from->regs));
	out->flags = from->flags;
	out->known = INSN_KNOWS_X86 | INSN_KNOWS_FLAGS;
}

static void fill_side(struct outside *o, const struct outside_side *from, uint64_t pc,
		      struct race_side *out)
{
	memset(out, 0, sizeof(*out));
	out->ip = pc;
	out->tid = (int32_t)(uint32_t)from->pid_tid;
	memcpy(out->thread, from->thread, sizeof(out->thread));
	out->thread[sizeof(out->thread) - 1] = '\0';
	copy_code(out, outside_module_at(&o->code, pc), pc);
	out->frames[0] = outside_place(o, pc);
	out->frame_count = 1;
}

static bool outside_decode(struct outside *o, uint64_t pc, struct insn *insn, const uint8_t **code)
{
	size_t bytes = 0;

	*code = text_of(outside_module_at(&o->code, pc), pc, &bytes);
	return *code &&
	       !insn_decode(*code, bytes < INSN_LENGTH_MAX ? bytes : INSN_LENGTH_MAX, insn);
}

static uint8_t what_is_stored(const struct outside_slot *slot, uint64_t stored)
{
	uint64_t mask = slot->part_len >= 8 ? ~0ull : (1ull << slot->part_len * 8) - 1;
	uint64_t skew = slot->part - slot->address;

	if (skew >= 8)
		return 0;
	return (stored >> skew * 8 & mask) == (slot->before & mask) ? RACE_STORES_SAME :
								      RACE_STORES_OTHER;
}

/* The operand that the trap was for. */
static const struct insn_memory *operand_of(const struct insn *insn, const struct outside_trap *t,
					    uint64_t pc)
{
	for (unsigned int i = 0; i < insn->memory_count; i++) {
		const struct insn_memory *m = &insn->memory[i];
		bool is_relative = m->base == INSN_RIP;
		int64_t displacement = m->displacement + (is_relative ? (int64_t)pc : 0);
		uint64_t base = is_relative || m->base == INSN_NO_REG ? OUTSIDE_NO_REG :
									(uint64_t)m->base;

		if (base == t->base && displacement == t->displacement && m->size == t->size)
			return m;
	}
	return NULL;
}

void outside_first_side(struct outside *o, const struct outside_caught *c, struct race_side *out)
{
	const uint64_t pc = c->trap.place;
	struct insn_regs regs;
	struct insn insn;
	const uint8_t *code;
	uint64_t stored;

	fill_side(o, &c->slot.first, pc, out);
	out->address = c->slot.address;
	out->size = (uint32_t)c->trap.size;
	out->access = c->trap.writes ? RACE_WRITE : RACE_READ;
	out->flags = RACE_DECODED;
	if (!outside_decode(o, pc, &insn, &code))
		return;
	const struct insn_memory *m = operand_of(&insn, &c->trap, pc);
	out->length = insn.length;
	if (m)
		out->access = m->access;
	if (insn.flags & INSN_VECTOR && out->size > 8)
		out->flags |= RACE_VECTOR;
	take_registers(&c->slot.first, &regs);
	if (c->slot.before == c->slot.second.value &&
	    !insn_stored_x86_64(&insn, code, &regs, &stored))
		out->flags |= what_is_stored(&c->slot, stored);
}

struct second {
	uint64_t pc; /* of the instruction; 0: not known */
	uint64_t address;
	uint32_t size;
	uint8_t length;
	uint8_t access;
	uint8_t is_atomic;
	uint8_t is_vector;
	uint8_t is_conditional;
};

static void describe(const struct insn *insn, unsigned int operand, uint64_t pc, uint64_t address,
		     struct second *out)
{
	const struct insn_memory *m = &insn->memory[operand];

	*out = (struct second){
		.pc = pc,
		.address = address,
		.size = m->size,
		.length = insn->length,
		.access = m->access,
		.is_atomic = (insn->flags & INSN_ATOMIC) != 0,
		.is_vector = insn->flags & INSN_VECTOR && m->size > 8,
		.is_conditional = insn->kind != INSN_STRING &&
				  m->flags & (INSN_MEM_CONDITIONAL | INSN_MEM_LANES),
	};
}

/* It ran in the kernel's copy: the thread's last site is what it ran. */
static bool find_by_note(struct outside *o, const struct outside_caught *c, struct second *out)
{
	const uint64_t pc = c->slot.second.note;
	struct insn_regs regs;
	struct insn insn;
	const uint8_t *code;

	if (!pc || !outside_decode(o, pc, &insn, &code))
		return false;
	take_registers(&c->slot.second, &regs);
	regs.r[INSN_RIP] = pc;
	for (unsigned int i = 0; i < insn.memory_count; i++) {
		uint64_t address = c->slot.part;
		bool is_overwritten = insn.memory[i].base < INSN_RIP &&
				      insn.writes >> insn.memory[i].base & 1;

		if (!is_overwritten &&
		    insn_touches(&insn, i, &regs, c->slot.part, c->slot.part_len) == 0)
			continue;
		if (!is_overwritten)
			insn_address(&insn, i, &regs, &address);
		describe(&insn, i, pc, address, out);
		return true;
	}
	return false;
}

/* It was seen before its access, at a site. */
static bool find_by_site(struct outside *o, const struct outside_caught *c, struct second *out)
{
	const uint64_t pc = c->second.place;
	struct insn insn;
	const uint8_t *code;

	if (!outside_decode(o, pc, &insn, &code))
		return false;
	const struct insn_memory *m = operand_of(&insn, &c->second, pc);
	if (m)
		describe(&insn, (unsigned int)(m - insn.memory), pc, c->slot.second.address, out);
	return m != NULL;
}

static bool find_back(struct outside *o, const struct outside_caught *c, struct second *out)
{
	const uint64_t behind = c->slot.second.regs[INSN_RIP];
	const struct outside_module *m = outside_module_at(&o->code, behind - 1);
	struct insn_regs regs;
	struct insn_back back;
	struct insn insn;
	const uint8_t *code;

	if (!m || !m->text)
		return false;
	take_registers(&c->slot.second, &regs);
	const struct insn_back_query query = {
		.text = m->text,
		.text_address = m->file.start,
		.text_bytes = m->text_bytes,
		.watch = c->slot.part,
		.watch_bytes = (uint32_t)c->slot.part_len,
		.access = INSN_READ_WRITE,
		.after = &regs,
	};
	int count = insn_back_x86_64(&query, &back);
	if (count <= 0)
		return false;
	for (int i = 0; i < count && i < INSN_BACK_MAX; i++)
		out->is_atomic |= (back.candidates[i].flags & INSN_ATOMIC) != 0;
	const struct insn_back_candidate *best = &back.candidates[0];
	if (back.found < INSN_BACK_LIKELY || !outside_decode(o, best->address, &insn, &code) ||
	    best->operand >= insn.memory_count)
		return false;
	describe(&insn, best->operand, best->address, best->touched, out);
	out->size = best->size;
	return true;
}

int outside_second_side(struct outside *o, const struct outside_caught *c, struct race_side *out,
			uint64_t *pc)
{
	const uint64_t behind = c->slot.second.regs[INSN_RIP];
	struct second s = { 0 };
	bool is_before = c->slot.second.site != 0;
	bool is_in_copy = !is_before && !outside_module_at(&o->code, behind - 1);
	bool is_known = is_before  ? find_by_site(o, c, &s) :
			is_in_copy ? find_by_note(o, c, &s) :
				     find_back(o, c, &s);

	if ((is_before || is_in_copy) && !is_known)
		return RACE_HITS_EXCLUDED;
	uint64_t at = is_known ? s.pc : behind;
	if (outside_policy_at(&o->code, is_known ? at : at - 1) == OUTSIDE_RUNTIME)
		return RACE_HITS_EXCLUDED;
	if (!is_known && s.is_atomic)
		return RACE_HITS_ATOMIC;
	if (is_known && !c->slot.writes && !(s.access & INSN_WRITE))
		return RACE_HITS_EXCLUDED; /* another thread changed the value at the same time */
	fill_side(o, &c->slot.second, at, out);
	out->address = is_known ? s.address : c->slot.part;
	out->size = is_known ? s.size : (uint32_t)c->slot.part_len;
	out->access = s.access;
	if (!is_known && c->slot.second.value != c->slot.before)
		out->access = RACE_WRITE;
	out->length = s.length;
	out->flags = (uint8_t)((is_known ? RACE_DECODED : 0) | (s.is_vector ? RACE_VECTOR : 0) |
			       (s.is_conditional ? RACE_CONDITIONAL : 0) |
			       (s.is_atomic ? RACE_LOCKED : 0));
	*pc = is_in_copy ? s.pc + s.length : behind;
	return 0;
}
