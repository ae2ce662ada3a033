/* SPDX-License-Identifier: MIT */
/*
 * race_update.c - read-modify-write in several instructions, as compilers make it of a
 * volatile ++.
 *
 * volatile makes the compiler keep an access; it does not make a counter correct. A plain load or
 * store of such a variable may be meant as an atomic one, but of two concurrent updates one is
 * lost.
 */
#include "report/race/race_report.h"

#include "code/insn/insn.h"
#include "record/race_judge.h"
#include "report/race/race_grade.h"

#define INSNS_MAX 8

static bool is_reg_in(uint8_t reg, uint64_t mask)
{
	return reg < 64 && mask >> reg & 1;
}

/*
 * The only plain operand of an instruction at an offset in code[]; pc-relative ones count
 * from code[0].
 */
static bool only_operand(const struct insn *insn, size_t at, uint8_t access,
			 struct insn_memory *out)
{
	if (insn->kind != INSN_OTHER || insn->memory_count != 1 || insn->flags & INSN_ATOMIC ||
	    insn->memory[0].access != access || insn->memory[0].flags)
		return false;
	*out = insn->memory[0];
	if (out->base == INSN_RIP)
		out->displacement += (int64_t)at;
	return true;
}

static bool update_is_same_place(const struct insn_memory *a, const struct insn_memory *b)
{
	return a->base == b->base && a->index == b->index && a->scale == b->scale &&
	       a->segment == b->segment && a->displacement == b->displacement;
}

/* The offset where the loaded value is stored again, changed; 0: not nearby. */
static size_t stored_again(const struct race_side *side, size_t at)
{
	struct insn_memory loaded;
	struct insn_memory stored;
	struct insn insn;

	if (race_decode_at(side, at, &insn) || !only_operand(&insn, at, INSN_READ, &loaded))
		return 0;
	uint64_t follows = insn.writes;
	for (int n = 0; n < INSNS_MAX; n++) {
		if (is_reg_in(loaded.base, insn.writes) || is_reg_in(loaded.index, insn.writes))
			return 0;
		at += insn.length;
		if (race_decode_at(side, at, &insn) ||
		    (insn.kind != INSN_OTHER && insn.kind != INSN_NOP))
			return 0;
		if (insn.reads & follows && only_operand(&insn, at, INSN_WRITE, &stored) &&
		    update_is_same_place(&loaded, &stored))
			return at;
		follows = insn.reads & follows ? follows | insn.writes : follows & ~insn.writes;
	}
	return 0;
}

/* It is the load or the store of an update. */
static bool is_of_update(const struct race_side *side)
{
	if (!(side->flags & RACE_DECODED))
		return false;
	if (side->access == RACE_READ)
		return stored_again(side, side->code_before) != 0;
	if (side->access != RACE_WRITE)
		return race_is_plain_rmw(side);
	/* Where instructions begin before it is not known; none but the right ones end in it so. */
	for (size_t at = 0; at < side->code_before; at++)
		if (stored_again(side, at) == side->code_before)
			return true;
	return false;
}

bool race_loses_update(const struct race_record *record)
{
	bool first = is_of_update(&record->first);
	bool second = is_of_update(&record->second);

	return (first && second) || (first && record->second.access & RACE_WRITE) ||
	       (second && record->first.access & RACE_WRITE);
}
