/* SPDX-License-Identifier: MIT */
/*
 * signature_rust.c - where functions of Rust have arguments and results, without optimisation.
 *
 * Rust promises no convention. What rustc does for simple values has been the same for years. A
 * number, or each of the two numbers of a pair, is in a register of its own; what is larger is
 * there by its address. All else is not known here, and nothing behind it.
 */
#include "report/lang/signature_priv.h"

#define GENERAL 6
#define VECTOR 8
#define DEPTH_MAX 16
#define STACK_FIRST 8

static const uint8_t argument_registers[GENERAL] = { 5, 4, 1, 2, 8, 9 };
static const uint8_t rust_result_registers[2] = { 0, 1 };

/* The numbers that a value consists of, when they are one or two. */
struct parts {
	const struct type *type[2];
	uint64_t offset[2];
	unsigned int count;
	bool is_other; /* it is not a number and not a pair */
};

static bool is_scalar(const struct type *t)
{
	return t->size && t->size <= 8 &&
	       (t->kind == TYPE_INTEGER || t->kind == TYPE_BOOL || t->kind == TYPE_CHARACTER ||
		t->kind == TYPE_FLOAT || t->kind == TYPE_ENUM || t->kind == TYPE_POINTER ||
		t->kind == TYPE_REFERENCE || t->kind == TYPE_FUNCTION);
}

static void parts_of(const struct type *t, uint64_t offset, struct parts *p, unsigned int depth);

static void part_add(struct parts *p, const struct type *t, uint64_t offset)
{
	if (p->count == 2) {
		p->is_other = true;
		return;
	}
	/* By address, since rustc orders the members of a struct as it likes. */
	unsigned int at = p->count && offset < p->offset[0] ? 0 : p->count;
	if (!at && p->count) {
		p->type[1] = p->type[0];
		p->offset[1] = p->offset[0];
	}
	p->type[at] = t;
	p->offset[at] = offset;
	p->count++;
}

/* Every variant of an enum has the same second number, or none. */
static void parts_of_enum(const struct type *t, const struct type_variants *variants,
			  uint64_t offset, struct parts *p, unsigned int depth)
{
	struct parts payload = { 0 };

	if (!variants->discriminant || !is_scalar(variants->discriminant)) {
		p->is_other = true;
		return;
	}
	if (variants->discriminant->size == t->size) {
		part_add(p, variants->discriminant, offset + variants->offset);
		return;
	}
	for (size_t i = 0; i < variants->count; i++) {
		struct parts one = { 0 };
		size_t n;
		type_members(variants->variant[i].type, &n);
		if (!n)
			continue;
		parts_of(variants->variant[i].type, 0, &one, depth + 1);
		if (one.is_other || one.count > 1)
			p->is_other = true;
		else if (one.count && payload.count &&
			 (one.offset[0] != payload.offset[0] ||
			  one.type[0]->size != payload.type[0]->size ||
			  one.type[0]->kind != payload.type[0]->kind))
			p->is_other = true;
		else if (one.count)
			payload = one;
	}
	part_add(p, variants->discriminant, offset + variants->offset);
	if (payload.count && payload.offset[0] == variants->offset)
		p->is_other =
			true; /* the number states the variant by values that it cannot have */
	else if (payload.count)
		part_add(p, payload.type[0], offset + payload.offset[0]);
}

static void parts_of(const struct type *t, uint64_t offset, struct parts *p, unsigned int depth)
{
	size_t n;
	const struct type_variants *variants = type_variants(t);

	if (depth > DEPTH_MAX || p->is_other) {
		p->is_other = true;
	} else if (is_scalar(t)) {
		part_add(p, t, offset);
	} else if (variants) {
		parts_of_enum(t, variants, offset, p, depth);
	} else if (t->kind == TYPE_STRUCT) {
		const struct type_member *m = type_members(t, &n);
		for (size_t i = 0; i < n; i++)
			if (m[i].type->size)
				parts_of(m[i].type, offset + m[i].offset, p, depth + 1);
		p->is_other = p->is_other || (!n && t->size);
	} else {
		p->is_other = t->size != 0;
	}
}

static void place_part(struct convention *c, struct signature_value *v, const struct type *t,
		       uint64_t offset)
{
	struct signature_piece piece = { .offset = (uint16_t)offset, .size = (uint8_t)t->size };

	if (t->kind == TYPE_FLOAT && c->vector < VECTOR) {
		piece.kind = SIGNATURE_PIECE_VECTOR;
		piece.reg = (uint8_t)c->vector++;
	} else if (t->kind != TYPE_FLOAT && c->general < GENERAL) {
		piece.reg = argument_registers[c->general++];
	} else {
		piece.kind = SIGNATURE_PIECE_STACK;
		piece.value = STACK_FIRST + c->stack;
		c->stack += 8;
	}
	signature_piece_add(v, &piece);
}

void signature_rust_argument(struct convention *c, struct signature_value *v)
{
	struct parts p = { 0 };

	v->where = SIGNATURE_GONE;
	if (c->is_lost)
		return;
	parts_of(v->type, 0, &p, 0);
	if (!p.is_other) {
		for (unsigned int i = 0; i < p.count; i++)
			place_part(c, v, p.type[i], p.offset[i]);
		v->where = SIGNATURE_PIECES;
	} else if (v->type->size > 16 && c->general < GENERAL) {
		v->where = SIGNATURE_MEMORY;
		v->reg[v->regs++] = argument_registers[c->general++];
	} else {
		c->is_lost = true;
	}
}

void signature_rust_result(struct convention *c, struct signature_value *v)
{
	struct parts p = { 0 };
	unsigned int general = 0;
	unsigned int vector = 0;

	v->where = SIGNATURE_PIECES;
	if (!v->type->size)
		return;
	parts_of(v->type, 0, &p, 0);
	for (unsigned int i = 0; !p.is_other && i < p.count; i++) {
		bool is_float = p.type[i]->kind == TYPE_FLOAT;
		struct signature_piece piece = {
			.kind = is_float ? SIGNATURE_PIECE_VECTOR : SIGNATURE_PIECE_REGISTER,
			.reg = is_float ? (uint8_t)vector++ : rust_result_registers[general++],
			.offset = (uint16_t)p.offset[i],
			.size = (uint8_t)p.type[i]->size,
		};
		signature_piece_add(v, &piece);
	}
	if (!p.is_other)
		return;
	v->where = SIGNATURE_GONE;
	if (v->type->size <= 8)
		return;
	/*
	 * Up to 16 bytes it depends on the release of rustc whether the caller gives an address,
	 * and so where the first argument is.
	 */
	c->is_lost = v->type->size <= 16;
	if (c->is_lost)
		return;
	/* The caller gives its address in the first register. It does not always come back. */
	v->where = SIGNATURE_MEMORY;
	c->general++;
}
