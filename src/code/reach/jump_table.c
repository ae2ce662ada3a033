/* SPDX-License-Identifier: MIT */
/*
 * jump_table.c - see jump_table.h.
 *
 * gcc and clang compile a switch to a comparison with the number of its cases, a jump for what is
 * above, and a jump by a table. The table has constants: distances from the table, or addresses.
 * Registers are followed from the first of the instructions to the jump, and what selects an entry
 * from the jump back to the comparison. What lies behind the end of a table looks like more of it.
 */
#include "code/reach/jump_table.h"

#include <string.h>

static uint8_t opcode_of(const struct jump_past *p)
{
	return p->insn.opcode_bytes ? p->code[p->insn.opcode_at + p->insn.opcode_bytes - 1] : 0;
}

static int is_plain(const struct jump_past *p, uint8_t code)
{
	return p->insn.opcode_bytes == 1 && p->code[p->insn.opcode_at] == code;
}

static uint8_t modrm_of(const struct jump_past *p)
{
	return p->insn.modrm_at ? p->code[p->insn.modrm_at] : 0;
}

/* The encoding as a DWARF number. */
static uint8_t dwarf_of(unsigned int number)
{
	static const uint8_t low[] = { INSN_RAX, INSN_RCX, INSN_RDX, INSN_RBX,
				       INSN_RSP, INSN_RBP, INSN_RSI, INSN_RDI };

	return number < 8 ? low[number] : (uint8_t)number;
}

static uint8_t reg_of(const struct jump_past *p)
{
	return dwarf_of((modrm_of(p) >> 3 & 7) | (p->insn.rex & 4) << 1);
}

static uint8_t rm_of(const struct jump_past *p)
{
	return dwarf_of((modrm_of(p) & 7) | (p->insn.rex & 1) << 3);
}

static int is_register_form(const struct jump_past *p)
{
	return p->insn.modrm_at && modrm_of(p) >> 6 == 3;
}

static int writes(const struct jump_past *p, uint8_t reg)
{
	return reg < INSN_RIP && (p->insn.writes >> reg & 1);
}

/* ---- what registers have ---- */

enum value_kind {
	INITIAL,
	OTHER,
	CONSTANT,
	SCALED,	 /* an index, times 4 */
	ENTRY,	 /* of a table of distances */
	TARGET,	 /* that, and the start of the table added */
	ADDRESS, /* entry of a table of addresses */
	POINTER,
};

struct value {
	enum value_kind kind;
	uint64_t number; /* of a constant; else the table */
	uint8_t index;	 /* of a table: as in struct jump */
	uint8_t row;
};

static struct value constant(uint64_t number)
{
	return (struct value){ .kind = CONSTANT, .number = number };
}

static struct value value_of_lea(const struct jump_past *p, uint32_t row)
{
	/* lea 0(,%index,4): mod 0, a SIB byte with scale 4 and no base, and a displacement of 0. */
	const uint8_t sib = p->code[p->insn.modrm_at + 1];
	int32_t displacement;

	if (p->insn.flags & INSN_PC_RELATIVE)
		return constant(p->pc + (uint64_t)p->insn.target);
	if ((modrm_of(p) & 0xc7) != 4 || (sib & 0xc7) != 0x85 || p->insn.displacement_bytes != 4)
		return (struct value){ .kind = OTHER };
	memcpy(&displacement, p->code + p->insn.displacement_at, sizeof(displacement));
	if (displacement)
		return (struct value){ .kind = OTHER };
	return (struct value){ .kind = SCALED,
			       .index = dwarf_of((sib >> 3 & 7) | (p->insn.rex & 2) << 2),
			       .row = (uint8_t)row };
}

static struct value register_value(const struct value *v, uint8_t reg)
{
	return reg < JUMP_REGISTERS ? v[reg] : (struct value){ .kind = OTHER };
}

static struct value value_of_load(const struct value *v, const struct jump_past *p, uint32_t row)
{
	const struct insn_memory *m = &p->insn.memory[0];
	const struct value base = register_value(v, m->base);
	const struct value index = register_value(v, m->index);
	const int has_base = m->base != INSN_NO_REG;

	if (!p->insn.memory_count || m->segment)
		return (struct value){ .kind = OTHER };
	if (m->index == INSN_NO_REG)
		return (struct value){ .kind = POINTER };
	if (m->scale == 8 && (!has_base || base.kind == CONSTANT))
		return (struct value){ ADDRESS,
				       (has_base ? base.number : 0) + (uint64_t)m->displacement,
				       m->index, (uint8_t)row };
	if (m->displacement)
		return (struct value){ .kind = OTHER };
	if (base.kind == CONSTANT && m->scale == 4 && m->size == 4)
		return (struct value){ ENTRY, base.number, m->index, (uint8_t)row };
	if (base.kind == SCALED && index.kind == CONSTANT && m->scale == 1)
		return (struct value){ ENTRY, index.number, base.index, base.row };
	if (base.kind == CONSTANT && index.kind == SCALED && m->scale == 1)
		return (struct value){ ENTRY, base.number, index.index, index.row };
	return (struct value){ .kind = OTHER };
}

static struct value sum(struct value a, struct value b)
{
	if (a.kind == ENTRY && b.kind == CONSTANT && a.number == b.number)
		return (struct value){ TARGET, a.number, a.index, a.row };
	if (b.kind == ENTRY && a.kind == CONSTANT && a.number == b.number)
		return (struct value){ TARGET, a.number, b.index, b.row };
	return (struct value){ .kind = OTHER };
}

static void forget(struct value *v, uint64_t registers)
{
	for (unsigned int i = 0; i < JUMP_REGISTERS; i++)
		if (registers >> i & 1)
			v[i] = (struct value){ .kind = OTHER };
}

/* What is before a call that never returns is before nothing: bases are those of the function. */
static void follow_call(struct value *v, const uint64_t *bases)
{
	const uint64_t kept_by_calls = 1ull << INSN_RBX | 1ull << INSN_RBP | 1ull << INSN_RSP |
				       0xf000;

	forget(v, ~kept_by_calls);
	for (unsigned int i = 0; bases && i < JUMP_REGISTERS; i++)
		if (v[i].kind == OTHER && bases[i])
			v[i] = constant(bases[i]);
}

static void follow(struct value *v, const struct jump_past *p, uint32_t row, const uint64_t *bases)
{
	const uint8_t opcode = p->insn.opcode_bytes == 1 ? opcode_of(p) : 0;
	const int has_two = is_register_form(p);
	unsigned int to = JUMP_REGISTERS;
	struct value is = { .kind = OTHER };

	switch (opcode) {
	case 0x8d:
		to = reg_of(p);
		is = value_of_lea(p, row);
		break;
	case 0x63: /* movslq */
	case 0x8b:
		to = reg_of(p);
		is = has_two ? v[rm_of(p)] : value_of_load(v, p, row);
		break;
	case 0x89:
		to = has_two ? rm_of(p) : JUMP_REGISTERS;
		is = v[reg_of(p)];
		break;
	case 0x01:
	case 0x03:
		if (!has_two)
			break;
		to = opcode == 0x01 ? rm_of(p) : reg_of(p);
		is = sum(v[rm_of(p)], v[reg_of(p)]);
		break;
	case 0x98: /* cltq */
		to = INSN_RAX;
		is = v[INSN_RAX];
		break;
	default:
		break;
	}
	forget(v, p->insn.writes);
	if (p->insn.kind == INSN_CALL || p->insn.kind == INSN_CALL_INDIRECT)
		follow_call(v, bases);
	if (to < JUMP_REGISTERS)
		v[to] = is;
}

static enum jump_kind kind_of(enum value_kind kind)
{
	switch (kind) {
	case TARGET:
		return JUMP_DISTANCES;
	case ADDRESS:
		return JUMP_ADDRESSES;
	case POINTER:
		return JUMP_POINTER;
	case INITIAL:
		return JUMP_INITIAL;
	default:
		return JUMP_UNKNOWN;
	}
}

void jump_find(const struct jump_past *past, uint32_t n, const struct jump_past *jump,
	       const uint64_t bases[JUMP_REGISTERS], struct jump *out)
{
	struct value v[JUMP_REGISTERS] = { 0 };
	struct value target;

	for (unsigned int i = 0; bases && i < JUMP_REGISTERS; i++)
		if (bases[i])
			v[i] = constant(bases[i]);
	for (uint32_t i = n; i--;)
		follow(v, &past[i], i + 1, bases);
	if (jump->insn.memory_count)
		target = value_of_load(v, jump, 0);
	else
		target = register_value(v, jump->insn.target_reg);
	*out = (struct jump){ kind_of(target.kind), target.number, target.index, target.row };
}

uint8_t jump_lea_register(const struct jump_past *p)
{
	return reg_of(p);
}

/* ---- how long it is ---- */

/* What is compared: a register, or the memory that it came from. */
struct compared {
	uint8_t reg; /* INSN_NO_REG: memory */
	struct insn_memory memory;
};

static int is_same_memory(const struct insn_memory *a, const struct insn_memory *b)
{
	return a->base == b->base && a->index == b->index && a->scale == b->scale &&
	       a->segment == b->segment && a->base != INSN_RIP &&
	       a->displacement == b->displacement;
}

/* The constant that an instruction compares with, or masks by. */
static int64_t immediate(const struct jump_past *p)
{
	const uint8_t *at = p->code + p->insn.immediate_at;
	int32_t wide;
	int16_t half;

	switch (p->insn.immediate_at ? p->insn.immediate_bytes : 0) {
	case 1:
		return p->insn.operand_bytes == 1 ? *at : (int8_t)*at;
	case 2:
		memcpy(&half, at, sizeof(half));
		return half;
	case 4:
		memcpy(&wide, at, sizeof(wide));
		return wide;
	}
	return -1;
}

/* cmp and and with a constant: /digit of the group, or the form for rax. */
static int is_arithmetic(const struct jump_past *p, uint8_t digit)
{
	uint8_t code = opcode_of(p);

	if (p->insn.opcode_bytes != 1)
		return 0;
	return ((code == 0x80 || code == 0x81 || code == 0x83) &&
		(modrm_of(p) >> 3 & 7) == digit) ||
	       code == digit * 8 + 4 || code == digit * 8 + 5;
}

static int is_of(const struct jump_past *p, const struct compared *v)
{
	if (!p->insn.modrm_at)
		return v->reg == INSN_RAX;
	/* ah to bh */
	if (opcode_of(p) == 0x80 && is_register_form(p) && !p->insn.rex && (modrm_of(p) & 7) > 3)
		return 0;
	if (is_register_form(p))
		return rm_of(p) == v->reg;
	return v->reg == INSN_NO_REG && p->insn.memory_count &&
	       is_same_memory(&p->insn.memory[0], &v->memory);
}

/* Where the value came from: 1, and *v is that. 0: not known. */
static int go_back(const struct jump_past *p, struct compared *v)
{
	int is_extension = p->insn.opcode_bytes == 2 &&
			   (opcode_of(p) == 0xb6 || opcode_of(p) == 0xb7);

	if (is_plain(p, 0x89) && is_register_form(p)) {
		v->reg = reg_of(p);
		return 1;
	}
	if (!is_extension && !is_plain(p, 0x8b) && !is_plain(p, 0x63))
		return 0;
	if (is_register_form(p)) {
		v->reg = rm_of(p);
		return 1;
	}
	v->reg = INSN_NO_REG;
	v->memory = p->insn.memory[0];
	return 1;
}

static int is_gone(const struct jump_past *p, const struct compared *v)
{
	return writes(p, v->memory.base) || writes(p, v->memory.index) ||
	       (p->insn.memory_count && p->insn.memory[0].access & INSN_WRITE);
}

/* Going back from the load: what selects the entry, and what was compared. */
struct search {
	struct compared v;
	uint8_t condition;  /* of the jump that came next, by the flags as they are here */
	uint8_t twin;	    /* a register that was compared, and may be a copy; */
	uint32_t twin_most; /* then the length is this */
};

/* 1: it is known by this instruction. */
static int is_bound(const struct jump_past *p, struct search *s, uint32_t *length)
{
	int64_t most = immediate(p);

	if (is_arithmetic(p, 7) && (s->condition == 7 || s->condition == 3)) {
		most += s->condition == 7;
		if (most <= 0 || most > JUMP_ENTRIES)
			return 0;
		*length = (uint32_t)most;
		if (is_of(p, &s->v))
			return 1;
		if (is_register_form(p) || !p->insn.modrm_at) {
			s->twin = p->insn.modrm_at ? rm_of(p) : INSN_RAX;
			s->twin_most = (uint32_t)most;
		}
		return 0;
	}
	if (s->v.reg == INSN_NO_REG || !is_arithmetic(p, 4) || !writes(p, s->v.reg) ||
	    !is_of(p, &s->v) || most < 0 || most >= JUMP_ENTRIES)
		return 0;
	*length = (uint32_t)most + 1;
	return 1;
}

/* The register that was compared: 1, it is a copy of what selects the entry. */
static int is_twin(const struct jump_past *p, struct search *s)
{
	struct compared from = { .reg = s->twin };

	if (s->twin == INSN_NO_REG || !writes(p, s->twin))
		return 0;
	s->twin = INSN_NO_REG;
	return s->v.reg != INSN_NO_REG && go_back(p, &from) && from.reg == s->v.reg;
}

/* 1: what selects the entry is the same there, or came from where s->v states now. */
static int can_go_back(const struct jump_past *p, struct search *s)
{
	if (p->insn.kind == INSN_CALL || p->insn.kind == INSN_CALL_INDIRECT)
		return 0;
	if (s->v.reg == INSN_NO_REG)
		return !is_gone(p, &s->v);
	if (!writes(p, s->v.reg))
		return 1;
	s->twin = INSN_NO_REG;
	return go_back(p, &s->v);
}

uint32_t jump_bound(const struct jump_past *past, uint32_t n, uint8_t index, uint32_t row)
{
	struct search s = { .v = { .reg = index },
			    .condition = INSN_CONDITION_NONE,
			    .twin = INSN_NO_REG };

	for (uint32_t i = row; i < n; i++) {
		const struct jump_past *p = &past[i];
		uint32_t length;

		if (p->insn.kind == INSN_JUMP_CONDITIONAL) {
			s.condition = p->insn.condition;
			continue;
		}
		if (is_bound(p, &s, &length))
			return length;
		if (is_twin(p, &s))
			return s.twin_most;
		if (p->insn.flags & INSN_WRITES_FLAGS)
			s.condition = INSN_CONDITION_NONE;
		if (!can_go_back(p, &s))
			return 0;
	}
	return 0;
}
