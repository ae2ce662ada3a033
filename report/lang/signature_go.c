/* SPDX-License-Identifier: MIT */
/*
 * signature_go.c - where Go's functions have arguments and results.
 *
 * This is ABIInternal of Go 1.17 and later on x86-64. A value is in registers part by part, or all
 * of it is on the stack. Results begin again with the first register.
 */
#include "report/lang/signature_priv.h"

#define GENERAL 9 /* rax rbx rcx rdi rsi r8 r9 r10 r11 */
#define VECTOR 15 /* xmm0 to xmm14 */
#define DEPTH_MAX 16
#define STACK_FIRST 8 /* behind the return address */

static const uint8_t general_registers[GENERAL] = { 0, 3, 2, 5, 4, 8, 9, 10, 11 };

static bool assign(struct convention *c, struct signature_value *v, const struct type *t,
		   uint64_t offset, unsigned int depth);

static bool assign_members(struct convention *c, struct signature_value *v, const struct type *t,
			   uint64_t offset, unsigned int depth)
{
	size_t n;
	const struct type_member *m = type_members(t, &n);

	for (size_t i = 0; i < n; i++)
		if (!assign(c, v, m[i].type, offset + m[i].offset, depth + 1))
			return false;
	return n || !t->size;
}

static bool assign_scalar(struct convention *c, struct signature_value *v, const struct type *t,
			  uint64_t offset)
{
	struct signature_piece piece = { .offset = (uint16_t)offset, .size = (uint8_t)t->size };

	if (t->kind == TYPE_FLOAT) {
		piece.kind = SIGNATURE_PIECE_VECTOR;
		piece.reg = (uint8_t)c->vector;
		return c->vector++ < VECTOR && signature_piece_add(v, &piece);
	}
	if (c->general == GENERAL || !t->size || t->size > 8)
		return false;
	piece.reg = general_registers[c->general++];
	return signature_piece_add(v, &piece);
}

static bool assign(struct convention *c, struct signature_value *v, const struct type *t,
		   uint64_t offset, unsigned int depth)
{
	if (depth > DEPTH_MAX || offset > SIGNATURE_BYTES_MAX)
		return false;
	switch (t->kind) {
	case TYPE_STRUCT:
		return assign_members(c, v, t, offset, depth);
	case TYPE_ARRAY:
		return !t->size ||
		       (t->count == 1 && assign(c, v, type_target(t), offset, depth + 1));
	case TYPE_UNKNOWN: /* a complex number: its parts have no types of their own */
	case TYPE_UNION:
		c->is_lost = true;
		return false;
	default:
		return assign_scalar(c, v, t, offset);
	}
}

static uint64_t align_of(const struct type *t, unsigned int depth)
{
	uint64_t most = 1;
	size_t n;
	const struct type_member *m = type_members(t, &n);

	if (t->kind == TYPE_ARRAY && depth < DEPTH_MAX)
		return align_of(type_target(t), depth + 1);
	if (!n)
		return t->size >= 8 ? 8 : t->size ? t->size : 1;
	for (size_t i = 0; i < n && depth < DEPTH_MAX; i++) {
		uint64_t align = align_of(m[i].type, depth + 1);
		most = align > most ? align : most;
	}
	return most;
}

void signature_go_place(struct convention *c, struct signature_value *v)
{
	struct convention before = *c;

	v->where = SIGNATURE_GONE;
	if (c->is_lost)
		return;
	if (assign(c, v, v->type, 0, 0)) {
		v->where = SIGNATURE_PIECES;
		return;
	}
	bool is_lost = c->is_lost;
	*c = before;
	c->is_lost = is_lost;
	v->piece_count = 0;
	if (is_lost)
		return;
	uint64_t align = align_of(v->type, 0);
	c->stack = (c->stack + align - 1) / align * align;
	v->where = SIGNATURE_STACK;
	v->stack = STACK_FIRST + c->stack;
	c->stack += v->type->size;
}

void signature_go_begin_results(struct convention *c)
{
	c->general = 0;
	c->vector = 0;
	c->stack = (c->stack + 7) / 8 * 8;
}
