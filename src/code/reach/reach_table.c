/* SPDX-License-Identifier: MIT */
/*
 * reach_table.c - the targets of an indirect jump, where a jump table (jump_table.h) has them all.
 *
 * The table's length is what the comparison states. A table without one is left alone: what lies
 * behind its end looks like more of it.
 */
#include "code/reach/reach_table.h"

#include <string.h>

#define AT_ONCE 64u
#define WIDE_ENTRIES 256u /* of a table of addresses whose length is not known */
#define LEA_BYTES 7u

/* The instructions that are before one, in the text: nearest first. */
static uint32_t read_past(const struct reach *r, uint32_t at, struct jump_past *out)
{
	uint32_t n = 0;

	while (n < REACH_PAST && at) {
		uint32_t from = at - 1;

		while (from && reach_bit(r->rest, from) && !reach_bit(r->first, from))
			from--;
		struct jump_past *p = &out[n];
		if (!reach_bit(r->first, from) ||
		    insn_decode(r->code + from, at - from, &p->insn) || p->insn.length != at - from)
			break;
		p->pc = r->start + from;
		p->code = r->code + from;
		if (p->insn.kind == INSN_JUMP || p->insn.kind == INSN_JUMP_INDIRECT ||
		    p->insn.kind == INSN_RETURN)
			break;
		at = from;
		n++;
	}
	return n;
}

/*
 * Registers that are set before a loop, perhaps: each has the only address relative to the pc that
 * the function puts there.
 */
static void find_far_bases(const struct reach *r, uint64_t bases[JUMP_REGISTERS])
{
	uint32_t several = 0;

	for (uint64_t at = 0; at + LEA_BYTES <= r->end - r->start; at++) {
		struct jump_past p = { r->start + at, r->code + at, { 0 } };

		if (!reach_bit(r->first, at) || (p.code[0] & 0xf8) != 0x48 || p.code[1] != 0x8d ||
		    (p.code[2] & 0xc7) != 5 || insn_decode(p.code, LEA_BYTES, &p.insn))
			continue;
		const uint8_t reg = jump_lea_register(&p);
		const uint64_t address = p.pc + (uint64_t)p.insn.target;
		if (bases[reg] && bases[reg] != address)
			several |= 1u << reg;
		bases[reg] = address;
	}
	for (uint32_t i = 0; i < JUMP_REGISTERS; i++)
		if (several >> i & 1)
			bases[i] = 0;
}

static int is_table(const struct jump *jump)
{
	return jump->kind == JUMP_DISTANCES || jump->kind == JUMP_ADDRESSES;
}

static uint64_t target_of(const struct jump *jump, const uint8_t *entry)
{
	int32_t distance;
	uint64_t address;

	if (jump->kind == JUMP_ADDRESSES) {
		memcpy(&address, entry, sizeof(address));
		return address;
	}
	memcpy(&distance, entry, sizeof(distance));
	return jump->table + (uint64_t)(int64_t)distance;
}

/* How many of the entries are addresses of code: at most length. What is taken becomes a root. */
static uint32_t each_entry(struct reach *r, const struct jump *jump, uint32_t length, int is_taken)
{
	uint32_t bytes = jump->kind == JUMP_ADDRESSES ? 8 : 4;
	uint8_t some[AT_ONCE * 8];

	for (uint32_t i = 0; i < length; i++) {
		uint32_t at = i % AT_ONCE;
		uint32_t n = length - i < AT_ONCE ? length - i : AT_ONCE;

		if (!at &&
		    !r->ops->read(r->ops->arg, jump->table + (uint64_t)i * bytes, some, n * bytes))
			return i;
		uint64_t target = target_of(jump, some + at * bytes);
		if (!r->ops->is_text(r->ops->arg, target))
			return i;
		if (is_taken)
			reach_leave(r, target);
	}
	if (is_taken)
		reach_is_data(r, jump->table, (uint64_t)length * bytes);
	return length;
}

int reach_table(struct reach *r, uint32_t at)
{
	struct jump_past before = { r->start + at, r->code + at, { 0 } };
	uint64_t left = r->end - r->start - at;
	uint64_t bases[JUMP_REGISTERS] = { 0 };
	struct jump jump;

	if (insn_decode(before.code, left < INSN_LENGTH_MAX ? left : INSN_LENGTH_MAX, &before.insn))
		return 0;
	/* Through the linkage table, or another pointer: to another function. */
	if (before.insn.flags & INSN_PC_RELATIVE)
		return 1;
	uint32_t n = read_past(r, at, r->past);
	jump_find(r->past, n, &before, NULL, &jump);
	if (!is_table(&jump)) {
		find_far_bases(r, bases);
		jump_find(r->past, n, &before, bases, &jump);
	}
	if (!is_table(&jump))
		return 0;
	uint32_t length = jump_bound(r->past, n, jump.index, jump.row);
	/* Constants that are addresses of code are what they seem, also behind the table's end. */
	if (!length && jump.kind == JUMP_ADDRESSES)
		length = each_entry(r, &jump, WIDE_ENTRIES, 0);
	return length && each_entry(r, &jump, length, 0) == length &&
	       each_entry(r, &jump, length, 1) == length;
}
