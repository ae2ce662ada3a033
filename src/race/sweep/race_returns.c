/* SPDX-License-Identifier: MIT */
/*
 * race_returns.c - does a call come back? Not in a handler.
 *
 * Behind a call that does not, there need not be code. A function never returns if no way through it
 * leads to a return or out of it by a jump. Of a function in another object the name tells; the names
 * are those that libc and the runtimes of C++ have. Where a function loads the address of one that
 * never returns, no call through a register or through the stack is known to come back.
 */
#include "race/sweep/race_returns.h"

#include <string.h>

#include "code/insn/insn.h"
#include "race/race_modules.h"
#include "race/sweep/race_calls.h"
#include "race/sweep/race_sites_find.h"

#define DEPTH_MAX 3u /* the stack may be a small one */
#define WAYS_MAX 64u /* in a function, of which each is followed once */
#define INSNS_MAX 4096u

enum answer {
	UNKNOWN,
	RETURNS,
	NEVER,
	ASKED, /* above in the chain of calls */
};

/* A function that is looked at. */
struct way {
	uint64_t start;
	uint64_t end;
	uint32_t count;
	uint32_t done;
	uint32_t loads_last;	   /* race_loads_last() of an instruction before */
	uint32_t places[WAYS_MAX]; /* from start */
};

static int function_returns(struct race_listing *l, int32_t (*rows)[2], uint64_t target,
			    unsigned int depth);

/* The row that begins at an address; UINT32_MAX: none. */
uint32_t race_find_row(const struct race_listing *l, int32_t (*rows)[2], uint64_t address)
{
	int64_t wanted = (int64_t)(address - (uintptr_t)l->module->eh_frame);
	uint32_t low = 0;
	uint32_t high = l->functions;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (rows[middle][0] < wanted)
			low = middle + 1;
		else
			high = middle;
	}
	return low < l->functions && rows[low][0] == wanted ? low : UINT32_MAX;
}

/* 0: there are too many. */
static int add_place(struct way *w, uint64_t pc)
{
	for (uint32_t i = 0; i < w->count; i++)
		if (w->places[i] == pc - w->start)
			return 1;
	if (w->count == WAYS_MAX)
		return 0;
	w->places[w->count++] = (uint32_t)(pc - w->start);
	return 1;
}

/* By its name; or the word has the address of a function of this object already. */
static int is_last_slot(struct race_listing *l, int32_t (*rows)[2], uint64_t slot,
			unsigned int depth)
{
	uint64_t target;

	return race_call_is_last(&l->calls, slot) ||
	       (race_copy(slot, &target, sizeof(target)) &&
		!function_returns(l, rows, target, depth + 1));
}

static int loads_last(struct race_listing *l, int32_t (*rows)[2], uint64_t pc, const uint8_t *code,
		      const struct insn *insn, unsigned int depth)
{
	uint8_t opcode = insn->opcode_bytes == 1 ? code[insn->opcode_at] : 0;
	uint64_t address = pc + (uint64_t)insn->target;
	uint32_t constant;

	if (insn->flags & INSN_PC_RELATIVE && opcode == 0x8d) /* lea */
		return !function_returns(l, rows, address, depth + 1);
	if (insn->flags & INSN_PC_RELATIVE && opcode == 0x8b && insn->rex & 8) /* mov */
		return is_last_slot(l, rows, address, depth);
	if (!insn->immediate_at || insn->immediate_bytes != sizeof(constant) ||
	    ((opcode & 0xf8) != 0xb8 && opcode != 0xc7)) /* mov of a constant */
		return 0;
	memcpy(&constant, code + insn->immediate_at, sizeof(constant));
	return !function_returns(l, rows, constant, depth + 1);
}

int race_loads_last(struct race_listing *l, int32_t (*rows)[2], uint64_t pc, const uint8_t *code,
		    const struct insn *insn)
{
	return loads_last(l, rows, pc, code, insn, 0);
}

static int comes_back(struct race_listing *l, int32_t (*rows)[2], uint64_t pc,
		      const struct insn *insn, unsigned int depth)
{
	const struct race_module *m = l->module;
	uint64_t slot = race_call_slot(m, insn, pc);

	if (slot)
		return !is_last_slot(l, rows, slot, depth);
	return insn->kind != INSN_CALL ||
	       function_returns(l, rows, pc + (uint64_t)insn->target, depth + 1);
}

/* A straight way. 1: it leads out of the function, or may; 0: it ends. */
static int follow(struct race_listing *l, int32_t (*rows)[2], struct way *w, uint64_t pc,
		  uint32_t *insns, unsigned int depth)
{
	const struct race_module *m = l->module;
	struct insn insn;

	for (; pc - w->start < w->end - w->start; pc += insn.length) {
		uint64_t left = w->end - pc;

		if (insn_decode(race_code(m, pc), left < INSN_LENGTH_MAX ? left : INSN_LENGTH_MAX,
				&insn))
			return 0;
		uint64_t target = pc + (uint64_t)insn.target;
		int is_inside = target - w->start < w->end - w->start;
		if (++*insns > INSNS_MAX)
			return 1;
		w->loads_last |= (uint32_t)loads_last(l, rows, pc, race_code(m, pc), &insn, depth);
		switch (insn.kind) {
		case INSN_RETURN:
			return 1;
		case INSN_JUMP_INDIRECT:
			return comes_back(l, rows, pc, &insn, depth);
		case INSN_TRAP:
			return 0;
		case INSN_JUMP:
			if (!is_inside)
				return comes_back(l, rows, pc, &insn, depth);
			return !add_place(w, target);
		case INSN_JUMP_CONDITIONAL:
			if (!is_inside || !add_place(w, target))
				return 1;
			break;
		case INSN_CALL:
		case INSN_CALL_INDIRECT:
			if ((w->loads_last && race_is_by_register(&insn)) ||
			    !comes_back(l, rows, pc, &insn, depth))
				return 0;
			break;
		}
	}
	return 0;
}

static int find_answer(struct race_listing *l, int32_t (*rows)[2], uint64_t start, uint64_t end,
		       unsigned int depth)
{
	struct way w = { .start = start, .end = end, .count = 1 };
	uint32_t insns = 0;

	while (w.done < w.count)
		if (follow(l, rows, &w, start + w.places[w.done++], &insns, depth))
			return 1;
	return 0;
}

static int function_returns(struct race_listing *l, int32_t (*rows)[2], uint64_t target,
			    unsigned int depth)
{
	const struct race_module *m = l->module;
	uint32_t row = race_find_row(l, rows, target);

	if (row == UINT32_MAX || target - m->text_start >= m->text_end - m->text_start)
		return 1;
	if (l->answers[row] != UNKNOWN)
		return l->answers[row] != NEVER;
	if (depth > DEPTH_MAX)
		return 1;
	/* Up to the next one: where it really ends is said elsewhere, and does not matter here. */
	uint64_t end = row + 1 < l->functions ?
			       (uintptr_t)m->eh_frame + (uint64_t)(int64_t)rows[row + 1][0] :
			       m->text_end;
	l->answers[row] = ASKED;
	int does = find_answer(l, rows, target, end < m->text_end ? end : m->text_end, depth);
	l->answers[row] = does ? RETURNS : NEVER;
	return does;
}

int race_call_returns(struct race_listing *l, int32_t (*rows)[2], uint64_t pc,
		      const struct insn *insn)
{
	return comes_back(l, rows, pc, insn, 0);
}
