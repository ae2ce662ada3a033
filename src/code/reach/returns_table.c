/* SPDX-License-Identifier: MIT */
/*
 * returns_table.c - what an indirect jump is: by a table, as compilers write a switch, or a call of
 * a pointer as the last act.
 *
 * The registers are followed through the instructions before the jump. A table counts only with the
 * comparison that limits its index: a word behind its end would lead to something that is not code.
 */
#include "code/reach/returns_priv.h"

#include "code/reach/reach_table.h"

#include <errno.h>
#include <string.h>

enum value_kind {
	INITIAL, /* as it came in */
	OTHER,
	CONSTANT,
	SCALED,	 /* an index, times 4 */
	ENTRY,	 /* of a table of 4-byte distances from its start */
	TARGET,	 /* that, and the start of the table added */
	ADDRESS, /* entry of a table of 8-byte addresses */
	POINTER, /* loaded from memory, and from no table */
};

struct value {
	enum value_kind kind;
	uint64_t number; /* of a constant; else the table */
	/* What selects the entry of a table: a register, as it is at a step of the history. */
	uint8_t index;
	uint8_t at;
};

#define REGISTERS 16

static const uint8_t dwarf_of[8] = { INSN_RAX, INSN_RCX, INSN_RDX, INSN_RBX,
				     INSN_RSP, INSN_RBP, INSN_RSI, INSN_RDI };

static unsigned int dwarf(unsigned int low, int is_high)
{
	return is_high ? low + 8 : dwarf_of[low];
}

static uint8_t returns_table_modrm(const struct returns_step *s)
{
	return s->insn.modrm_at ? s->bytes[s->insn.modrm_at] : 0;
}

static unsigned int reg_field(const struct returns_step *s)
{
	return dwarf(returns_table_modrm(s) >> 3 & 7, s->insn.rex & 4);
}

static unsigned int rm_field(const struct returns_step *s)
{
	return dwarf(returns_table_modrm(s) & 7, s->insn.rex & 1);
}

static int has_two_registers(const struct returns_step *s)
{
	return s->insn.modrm_at && returns_table_modrm(s) >> 6 == 3;
}

/* The one opcode byte; -1: it has more. */
static int returns_table_opcode(const struct returns_step *s)
{
	return s->insn.opcode_bytes == 1 ? s->bytes[s->insn.opcode_at] : -1;
}

static int64_t displacement32(const struct returns_step *s)
{
	int32_t d;

	memcpy(&d, s->bytes + s->insn.displacement_at, sizeof(d));
	return d;
}

static struct value value_of_lea(const struct returns_step *s, size_t at)
{
	/* lea 0(,%index,4): mod 0, a SIB byte with scale 4 and no base, and a displacement of 0. */
	uint8_t sib = s->bytes[s->insn.modrm_at + 1];

	if (s->insn.flags & INSN_PC_RELATIVE)
		return (struct value){ .kind = CONSTANT,
				       .number = s->address + (uint64_t)s->insn.target };
	if ((returns_table_modrm(s) & 0xc7) == 4 && (sib & 0xc7) == 0x85 &&
	    s->insn.displacement_bytes == 4 && !displacement32(s))
		return (struct value){ .kind = SCALED,
				       .index = (uint8_t)dwarf(sib >> 3 & 7, s->insn.rex & 2),
				       .at = (uint8_t)at };
	return (struct value){ .kind = OTHER };
}

static struct value register_value(const struct value *v, uint8_t reg)
{
	return reg < REGISTERS ? v[reg] : (struct value){ .kind = OTHER };
}

static struct value value_of_load(const struct value *v, const struct returns_step *s, size_t at)
{
	const struct insn_memory *m = &s->insn.memory[0];
	struct value base = register_value(v, m->base);
	struct value index = register_value(v, m->index);

	if (!s->insn.memory_count || m->segment)
		return (struct value){ .kind = OTHER };
	if (m->index == INSN_NO_REG)
		return (struct value){ .kind = POINTER };
	if (m->base == INSN_NO_REG && m->scale == 8)
		return (struct value){ ADDRESS, (uint64_t)m->displacement, m->index, (uint8_t)at };
	if (m->displacement)
		return (struct value){ .kind = OTHER };
	if (base.kind == CONSTANT && m->scale == 4 && m->size == 4)
		return (struct value){ ENTRY, base.number, m->index, (uint8_t)at };
	if (base.kind == SCALED && index.kind == CONSTANT && m->scale == 1)
		return (struct value){ ENTRY, index.number, base.index, base.at };
	if (base.kind == CONSTANT && index.kind == SCALED && m->scale == 1)
		return (struct value){ ENTRY, base.number, index.index, index.at };
	return (struct value){ .kind = OTHER };
}

static struct value sum(struct value a, struct value b)
{
	if (a.kind == ENTRY && b.kind == CONSTANT && a.number == b.number)
		return (struct value){ TARGET, a.number, a.index, a.at };
	if (b.kind == ENTRY && a.kind == CONSTANT && a.number == b.number)
		return (struct value){ TARGET, a.number, b.index, b.at };
	return (struct value){ .kind = OTHER };
}

static void forget(struct value *v, uint64_t registers)
{
	for (unsigned int i = 0; i < REGISTERS; i++)
		if (registers >> i & 1)
			v[i] = (struct value){ .kind = OTHER };
}

static void returns_table_follow(struct value *v, const struct returns_step *s, size_t at)
{
	const uint64_t kept_by_calls = 1ull << INSN_RBX | 1ull << INSN_RBP | 1ull << INSN_RSP |
				       0xf000;
	unsigned int to = REGISTERS;
	struct value is = { .kind = OTHER };

	switch (returns_table_opcode(s)) {
	case 0x8d:
		to = reg_field(s);
		is = value_of_lea(s, at);
		break;
	case 0x63: /* movslq */
	case 0x8b:
		to = reg_field(s);
		is = has_two_registers(s) ? v[rm_field(s)] : value_of_load(v, s, at);
		break;
	case 0x89:
		to = has_two_registers(s) ? rm_field(s) : REGISTERS;
		is = v[reg_field(s)];
		break;
	case 0x01:
	case 0x03:
		if (!has_two_registers(s))
			break;
		to = returns_table_opcode(s) == 0x01 ? rm_field(s) : reg_field(s);
		is = sum(v[rm_field(s)], v[reg_field(s)]);
		break;
	case 0x98: /* cltq */
		to = INSN_RAX;
		is = v[INSN_RAX];
		break;
	default:
		break;
	}
	forget(v, s->insn.writes);
	if (s->insn.kind == INSN_CALL || s->insn.kind == INSN_CALL_INDIRECT)
		forget(v, ~kept_by_calls);
	if (to < REGISTERS)
		v[to] = is;
}

/* How many entries the table has, by the bound of what selects one; 0: not known. */
static uint32_t limit_of(const struct returns_history *h, struct value v)
{
	struct reach_past past[RETURNS_HISTORY];
	uint32_t n = 0;

	for (size_t i = h->count; i--;) {
		const struct returns_step *s = &h->step[i];

		/* Where a conditional jump was taken, what is before it states the opposite. */
		if (s->insn.kind == INSN_JUMP_CONDITIONAL && i + 1 < h->count &&
		    h->step[i + 1].address != s->address + s->insn.length)
			break;
		past[n++] = (struct reach_past){ s->address, s->bytes, s->insn };
	}
	if (n == 0)
		return 0;
	/*
	 * The last step is the first here, and the bound is before the step that reads the index.
	 */
	uint32_t n_entries = reach_bound(past, n, v.index, (uint32_t)(h->count - v.at));
	return n_entries <= RETURNS_TABLE_MAX ? n_entries : 0;
}

static enum returns_jump table_kind(const struct returns_code *code, struct value v,
				    const struct returns_history *before,
				    struct returns_table *table)
{
	*table = (struct returns_table){ .address = v.number, .count = limit_of(before, v) };
	if (v.kind == ADDRESS && code->has_fixed_addresses) {
		table->entry_bytes = 8;
	} else if (v.kind == TARGET) {
		table->base = v.number;
		table->entry_bytes = 4;
	}
	return table->entry_bytes && table->count ? RETURNS_JUMP_TABLE : RETURNS_JUMP_UNKNOWN;
}

static int is_argument(uint8_t reg)
{
	const uint32_t arguments = 1u << INSN_RDI | 1u << INSN_RSI | 1u << INSN_RDX |
				   1u << INSN_RCX | 1u << INSN_R8 | 1u << INSN_R9;

	return reg < REGISTERS && arguments >> reg & 1;
}

/* The other architectures have their own tables, which are not known here. */
enum returns_jump returns_jump_kind(const struct returns_code *code,
				    const struct returns_history *before,
				    const struct returns_step *jump, struct returns_table *table)
{
	struct value v[REGISTERS] = { 0 };
	struct value target;

	if (jump->insn.arch != INSN_X86_64)
		return RETURNS_JUMP_CALL;
	for (size_t i = 0; i < before->count; i++)
		returns_table_follow(v, &before->step[i], i);
	if (jump->insn.memory_count)
		target = value_of_load(v, jump, before->count);
	else
		target = register_value(v, jump->insn.target_reg);
	/* What came in is a pointer that was given, if it is in the register of an argument. */
	if (target.kind == POINTER ||
	    (target.kind == INITIAL && (before->is_whole || is_argument(jump->insn.target_reg))))
		return RETURNS_JUMP_CALL;
	return table_kind(code, target, before, table);
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
