/* SPDX-License-Identifier: MIT */
/*
 * reach_table.c - the targets of an indirect jump, where a jump table has them all.
 *
 * gcc and clang compile a switch to a comparison with the number of its cases, a jump for what is
 * above, and a jump by a table. The table has constants: distances from the table, or addresses.
 * The table's length is what the comparison states. A table without one is left alone: what lies
 * behind its end looks like more of it.
 */
#include "code/reach/reach_table.h"

#include <string.h>

#define ENTRIES 4096u /* of a table */
#define AT_ONCE 64u
#define WIDE_ENTRIES 256u /* of a table of addresses whose length is not known */

/* The load from the table. */
struct load {
	uint32_t row; /* in the past; those behind it are before the load */
	uint64_t table;
	uint8_t index;	 /* register that selects the entry */
	uint8_t is_wide; /* entries of 8 bytes: addresses */
};

/* What is compared: a register, or the memory that it came from. */
struct value {
	uint8_t reg; /* INSN_NO_REG: memory */
	struct insn_memory memory;
};

static uint8_t reach_table_opcode(const struct reach_past *p)
{
	return p->insn.opcode_bytes ? p->code[p->insn.opcode_at + p->insn.opcode_bytes - 1] : 0;
}

static int is_plain(const struct reach_past *p, uint8_t code)
{
	return p->insn.opcode_bytes == 1 && p->code[p->insn.opcode_at] == code;
}

static uint8_t reach_table_modrm(const struct reach_past *p)
{
	return p->insn.modrm_at ? p->code[p->insn.modrm_at] : 0;
}

static int is_wide(const struct reach_past *p)
{
	return p->insn.rex >> 3 & 1;
}

/* The encoding as a DWARF number. */
static uint8_t dwarf_of(unsigned int number)
{
	static const uint8_t low[] = { INSN_RAX, INSN_RCX, INSN_RDX, INSN_RBX,
				       INSN_RSP, INSN_RBP, INSN_RSI, INSN_RDI };

	return number < 8 ? low[number] : (uint8_t)number;
}

static uint8_t reg_of(const struct reach_past *p)
{
	return dwarf_of((reach_table_modrm(p) >> 3 & 7) | (p->insn.rex & 4) << 1);
}

static uint8_t rm_of(const struct reach_past *p)
{
	return dwarf_of((reach_table_modrm(p) & 7) | (p->insn.rex & 1) << 3);
}

static int is_register_form(const struct reach_past *p)
{
	return p->insn.modrm_at && reach_table_modrm(p) >> 6 == 3;
}

static int writes(const struct reach_past *p, uint8_t reg)
{
	return reg < INSN_RIP && (p->insn.writes >> reg & 1);
}

/* The instructions that are before one, in the text: nearest first. */
static uint32_t read_past(const struct reach *r, uint32_t at, struct reach_past *out)
{
	uint32_t n = 0;

	while (n < REACH_PAST && at) {
		uint32_t from = at - 1;

		while (from && reach_bit(r->rest, from) && !reach_bit(r->first, from))
			from--;
		struct reach_past *p = &out[n];
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

static int is_lea_of_pc(const struct reach_past *p)
{
	return is_plain(p, 0x8d) && p->insn.flags & INSN_PC_RELATIVE;
}

/* It was set before a loop, perhaps: the only such address that the function puts there. */
static int find_far_base(const struct reach *r, uint8_t reg, uint64_t *out)
{
	uint64_t found = 0;

	for (uint64_t at = 0; at + 7 <= r->end - r->start; at++) {
		struct reach_past p = { r->start + at, r->code + at, { 0 } };

		if (!reach_bit(r->first, at) || (p.code[0] & 0xf8) != 0x48 || p.code[1] != 0x8d ||
		    (p.code[2] & 0xc7) != 5 || insn_decode(p.code, 7, &p.insn) || reg_of(&p) != reg)
			continue;
		uint64_t address = p.pc + (uint64_t)p.insn.target;
		if (found && found != address)
			return 0;
		found = address;
	}
	*out = found;
	return found != 0;
}

static int find_base(const struct reach *r, const struct reach_past *past, uint32_t n, uint32_t row,
		     uint8_t reg, uint64_t *out)
{
	for (uint32_t i = row; i < n; i++) {
		if (!writes(&past[i], reg))
			continue;
		*out = past[i].pc + (uint64_t)past[i].insn.target;
		return is_lea_of_pc(&past[i]);
	}
	return find_far_base(r, reg, out);
}

/* The operand of a load from a table: its base and index. */
static int take_operand(const struct reach *r, const struct reach_past *past, uint32_t n,
			uint32_t row, const struct insn *insn, struct load *out)
{
	const struct insn_memory *m = &insn->memory[0];
	uint64_t base = 0;

	if (!insn->memory_count || m->index == INSN_NO_REG || m->segment ||
	    m->scale != (out->is_wide ? 8 : 4) || m->base == INSN_RIP)
		return 0;
	if (m->base != INSN_NO_REG && !find_base(r, past, n, row, m->base, &base))
		return 0;
	out->row = row;
	out->index = m->index;
	out->table = base + (uint64_t)m->displacement;
	return out->table != 0;
}

/*
 * add %base, %offset: one of them was loaded from the table. movslq, or without a switch's
 * optimizer cltq.
 */
static int find_distance(const struct reach *r, const struct reach_past *past, uint32_t n,
			 uint32_t row, uint8_t one, uint8_t other, struct load *out)
{
	out->is_wide = 0;
	for (uint32_t i = row; i < n; i++) {
		const struct reach_past *p = &past[i];

		if (!writes(p, one) && !writes(p, other))
			continue;
		if (is_lea_of_pc(p) ||
		    (p->insn.length == 2 && p->code[0] == 0x48 && p->code[1] == 0x98))
			continue;
		return (is_plain(p, 0x63) || is_plain(p, 0x8b)) && !is_register_form(p) &&
		       take_operand(r, past, n, i + 1, &p->insn, out);
	}
	return 0;
}

static int find_load(const struct reach *r, const struct reach_past *past, uint32_t n,
		     const struct reach_past *jump, struct load *out)
{
	out->is_wide = 1;
	if (jump->insn.memory_count)
		return take_operand(r, past, n, 0, &jump->insn, out);
	for (uint32_t i = 0; i < n; i++) {
		const struct reach_past *p = &past[i];

		if (!writes(p, jump->insn.target_reg))
			continue;
		if ((is_plain(p, 0x01) || is_plain(p, 0x03)) && is_register_form(p) && is_wide(p))
			return find_distance(r, past, n, i + 1, reg_of(p), rm_of(p), out);
		return is_plain(p, 0x8b) && is_wide(p) && !is_register_form(p) &&
		       take_operand(r, past, n, i + 1, &p->insn, out);
	}
	return 0;
}

/* ---- how long it is ---- */

static int is_same_memory(const struct insn_memory *a, const struct insn_memory *b)
{
	return a->base == b->base && a->index == b->index && a->scale == b->scale &&
	       a->segment == b->segment && a->base != INSN_RIP &&
	       a->displacement == b->displacement;
}

/* The constant that an instruction compares with, or masks by. */
static int64_t immediate(const struct reach_past *p)
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
static int is_arithmetic(const struct reach_past *p, uint8_t digit)
{
	uint8_t code = reach_table_opcode(p);

	if (p->insn.opcode_bytes != 1)
		return 0;
	return ((code == 0x80 || code == 0x81 || code == 0x83) &&
		(reach_table_modrm(p) >> 3 & 7) == digit) ||
	       code == digit * 8 + 4 || code == digit * 8 + 5;
}

static int is_of(const struct reach_past *p, const struct value *v)
{
	if (!p->insn.modrm_at)
		return v->reg == INSN_RAX;
	/* ah to bh */
	if (reach_table_opcode(p) == 0x80 && is_register_form(p) && !p->insn.rex &&
	    (reach_table_modrm(p) & 7) > 3)
		return 0;
	if (is_register_form(p))
		return rm_of(p) == v->reg;
	return v->reg == INSN_NO_REG && p->insn.memory_count &&
	       is_same_memory(&p->insn.memory[0], &v->memory);
}

/* Where the value came from: 1, and *v is that. 0: not known. */
static int go_back(const struct reach_past *p, struct value *v)
{
	int is_extension = p->insn.opcode_bytes == 2 &&
			   (reach_table_opcode(p) == 0xb6 || reach_table_opcode(p) == 0xb7);

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

static int is_gone(const struct reach_past *p, const struct value *v)
{
	return writes(p, v->memory.base) || writes(p, v->memory.index) ||
	       (p->insn.memory_count && p->insn.memory[0].access & INSN_WRITE);
}

/* Going back from the load: what selects the entry, and what was compared. */
struct search {
	struct value v;
	uint8_t condition;  /* of the jump that came next, by the flags as they are here */
	uint8_t twin;	    /* a register that was compared, and may be a copy; */
	uint32_t twin_most; /* then the length is this */
};

/* 1: it is known by this instruction. */
static int is_bound(const struct reach_past *p, struct search *s, uint32_t *length)
{
	int64_t most = immediate(p);

	if (is_arithmetic(p, 7) && (s->condition == 7 || s->condition == 3)) {
		most += s->condition == 7;
		if (most <= 0 || most > ENTRIES)
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
	    !is_of(p, &s->v) || most < 0 || most >= ENTRIES)
		return 0;
	*length = (uint32_t)most + 1;
	return 1;
}

/* The register that was compared: 1, it is a copy of what selects the entry. */
static int is_twin(const struct reach_past *p, struct search *s)
{
	struct value from = { .reg = s->twin };

	if (s->twin == INSN_NO_REG || !writes(p, s->twin))
		return 0;
	s->twin = INSN_NO_REG;
	return s->v.reg != INSN_NO_REG && go_back(p, &from) && from.reg == s->v.reg;
}

/* 1: what selects the entry is the same there, or came from where s->v states now. */
static int can_go_back(const struct reach_past *p, struct search *s)
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

/* 0: not known. */
static uint32_t find_length(const struct reach_past *past, uint32_t n, const struct load *load)
{
	struct search s = { .v = { .reg = load->index },
			    .condition = INSN_CONDITION_NONE,
			    .twin = INSN_NO_REG };

	for (uint32_t i = load->row; i < n; i++) {
		const struct reach_past *p = &past[i];
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

uint32_t reach_bound(const struct reach_past *past, uint32_t n, uint8_t index, uint32_t row)
{
	const struct load load = { .row = row, .index = index };

	return find_length(past, n, &load);
}

/* ---- its entries ---- */

static uint64_t target_of(const struct load *load, const uint8_t *entry)
{
	int32_t distance;
	uint64_t address;

	if (load->is_wide) {
		memcpy(&address, entry, sizeof(address));
		return address;
	}
	memcpy(&distance, entry, sizeof(distance));
	return load->table + (uint64_t)(int64_t)distance;
}

/* How many of the entries are addresses of code: at most length. What is taken becomes a root. */
static uint32_t each_entry(struct reach *r, const struct load *load, uint32_t length, int is_taken)
{
	uint32_t bytes = load->is_wide ? 8 : 4;
	uint8_t some[AT_ONCE * 8];

	for (uint32_t i = 0; i < length; i++) {
		uint32_t at = i % AT_ONCE;
		uint32_t n = length - i < AT_ONCE ? length - i : AT_ONCE;

		if (!at &&
		    !r->ops->read(r->ops->arg, load->table + (uint64_t)i * bytes, some, n * bytes))
			return i;
		uint64_t target = target_of(load, some + at * bytes);
		if (!r->ops->is_text(r->ops->arg, target))
			return i;
		if (is_taken)
			reach_leave(r, target);
	}
	if (is_taken)
		reach_is_data(r, load->table, (uint64_t)length * bytes);
	return length;
}

int reach_table(struct reach *r, uint32_t at)
{
	struct reach_past *past = r->past;
	struct reach_past jump = { r->start + at, r->code + at, { 0 } };
	uint64_t left = r->end - r->start - at;
	struct load load;

	if (insn_decode(jump.code, left < INSN_LENGTH_MAX ? left : INSN_LENGTH_MAX, &jump.insn))
		return 0;
	/* Through the linkage table, or another pointer: to another function. */
	if (jump.insn.flags & INSN_PC_RELATIVE)
		return 1;
	uint32_t n = read_past(r, at, past);
	if (!find_load(r, past, n, &jump, &load))
		return 0;
	uint32_t length = find_length(past, n, &load);
	/* Constants that are addresses of code are what they seem, also behind the table's end. */
	if (!length && load.is_wide)
		length = each_entry(r, &load, WIDE_ENTRIES, 0);
	return length && each_entry(r, &load, length, 0) == length &&
	       each_entry(r, &load, length, 1) == length;
}
