/* SPDX-License-Identifier: MIT */
/*
 * returns_table.c - what an indirect jump is: by a table, as compilers write a switch, or a call of
 * a pointer as the last act.
 *
 * A table counts only with the comparison that limits its index: a word behind its end would lead
 * to something that is not code.
 */
#include "code/reach/returns_priv.h"

#include "code/reach/jump_table.h"

#include <errno.h>

static struct jump_past past_of(const struct returns_step *s)
{
	return (struct jump_past){ s->address, s->bytes, s->insn };
}

/* The last one first. How many of them have run just before the jump. */
static uint32_t read_history(const struct returns_history *h, struct jump_past *past)
{
	uint32_t n = 0;
	uint32_t valid = UINT32_MAX;

	for (size_t i = h->count; i--; n++) {
		const struct returns_step *s = &h->step[i];

		/* Where a conditional jump was taken, what is before it states the opposite. */
		if (s->insn.kind == INSN_JUMP_CONDITIONAL && i + 1 < h->count &&
		    h->step[i + 1].address != s->address + s->insn.length && n < valid)
			valid = n;
		past[n] = past_of(s);
	}
	return n < valid ? n : valid;
}

static int is_argument(uint8_t reg)
{
	const uint32_t arguments = 1u << INSN_RDI | 1u << INSN_RSI | 1u << INSN_RDX |
				   1u << INSN_RCX | 1u << INSN_R8 | 1u << INSN_R9;

	return reg < JUMP_REGISTERS && arguments >> reg & 1;
}

/* The other architectures have their own tables, which are not known here. */
enum returns_jump returns_jump_kind(const struct returns_code *code,
				    const struct returns_history *before,
				    const struct returns_step *at, struct returns_table *table)
{
	struct jump_past past[RETURNS_HISTORY];
	const struct jump_past last = past_of(at);
	struct jump jump;

	if (at->insn.arch != INSN_X86_64)
		return RETURNS_JUMP_CALL;
	const uint32_t n = read_history(before, past);
	jump_find(past, (uint32_t)before->count, &last, NULL, &jump);
	/* What came in is a pointer that was given, if it is in the register of an argument. */
	if (jump.kind == JUMP_POINTER ||
	    (jump.kind == JUMP_INITIAL && (before->is_whole || is_argument(at->insn.target_reg))))
		return RETURNS_JUMP_CALL;
	if (jump.kind != JUMP_DISTANCES &&
	    (jump.kind != JUMP_ADDRESSES || !code->has_fixed_addresses))
		return RETURNS_JUMP_UNKNOWN;
	*table = (struct returns_table){
		.address = jump.table,
		.base = jump.kind == JUMP_DISTANCES ? jump.table : 0,
		.entry_bytes = jump.kind == JUMP_DISTANCES ? 4 : 8,
		.count = jump_bound(past, n, jump.index, jump.row),
	};
	return table->count && table->count <= RETURNS_TABLE_MAX ? RETURNS_JUMP_TABLE :
								   RETURNS_JUMP_UNKNOWN;
}

int returns_table_entry(const struct returns_code *code, const struct returns_table *table,
			uint32_t i, uint64_t *target)
{
	int32_t distance;
	uint64_t at = table->address + (uint64_t)i * table->entry_bytes;

	if (table->entry_bytes == sizeof(*target))
		return code->copy(code->arg, at, target, sizeof(*target)) == sizeof(*target) ?
			       0 :
			       -EOPNOTSUPP;
	if (code->copy(code->arg, at, &distance, sizeof(distance)) != sizeof(distance))
		return -EOPNOTSUPP;
	*target = table->base + (uint64_t)(int64_t)distance;
	return 0;
}
