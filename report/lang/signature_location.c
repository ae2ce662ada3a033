/* SPDX-License-Identifier: MIT */
/* signature_location.c - values as debug information has them: in registers and constants. */
#include "report/lang/signature_priv.h"

#include <dwarf.h>

#define VECTOR_FIRST 17 /* DWARF number of xmm0 */
#define VECTORS 16

bool signature_piece_add(struct signature_value *v, const struct signature_piece *piece)
{
	if (v->piece_count == SIGNATURE_PIECES_MAX)
		return false;
	v->piece[v->piece_count++] = *piece;
	return true;
}

bool signature_is_in_one_place(const struct signature_value *v)
{
	return v->where == SIGNATURE_PIECES && v->piece_count == 1 && !v->piece[0].offset &&
	       v->piece[0].size >= v->type->size && v->type->size <= 8;
}

int signature_register_of(const struct signature_value *v, uint64_t offset, uint64_t *begins)
{
	if (v->where == SIGNATURE_REGISTERS && offset / 8 < v->regs) {
		*begins = offset / 8 * 8;
		return v->reg[offset / 8];
	}
	for (size_t i = 0; v->where == SIGNATURE_PIECES && i < v->piece_count; i++) {
		const struct signature_piece *p = &v->piece[i];
		if (p->kind != SIGNATURE_PIECE_REGISTER || offset < p->offset ||
		    offset - p->offset >= p->size)
			continue;
		*begins = p->offset;
		return p->reg;
	}
	return -1;
}

bool signature_vector_of(const struct signature_value *v, uint64_t offset, unsigned int *number,
			 uint64_t *at)
{
	if (v->where == SIGNATURE_VECTOR && v->vector != SIGNATURE_X87) {
		bool has_two = v->vectors > 1;
		*number = v->vector + (has_two ? (unsigned int)(offset / 8) : 0);
		*at = has_two ? offset % 8 : offset;
		return offset < 16;
	}
	for (size_t i = 0; v->where == SIGNATURE_PIECES && i < v->piece_count; i++) {
		const struct signature_piece *p = &v->piece[i];
		if (p->kind != SIGNATURE_PIECE_VECTOR || offset < p->offset ||
		    offset - p->offset >= p->size)
			continue;
		*number = p->reg;
		*at = offset - p->offset;
		return *at < 16;
	}
	return false;
}

unsigned int signature_vectors(const struct signature_value *v)
{
	unsigned int most = 0;

	if (v->where == SIGNATURE_VECTOR && v->vector != SIGNATURE_X87)
		return v->vector + (v->vectors ? v->vectors : 1u);
	for (size_t i = 0; v->where == SIGNATURE_PIECES && i < v->piece_count; i++)
		if (v->piece[i].kind == SIGNATURE_PIECE_VECTOR && v->piece[i].reg >= most)
			most = v->piece[i].reg + 1u;
	return most;
}

/* A constant that is the value itself. */
static bool location_constant(const Dwarf_Op *op, uint64_t *out)
{
	switch (op->atom) {
	case DW_OP_const1u:
	case DW_OP_const2u:
	case DW_OP_const4u:
	case DW_OP_const8u:
	case DW_OP_constu:
	case DW_OP_const1s:
	case DW_OP_const2s:
	case DW_OP_const4s:
	case DW_OP_const8s:
	case DW_OP_consts:
		*out = op->number;
		return true;
	default:
		*out = (uint64_t)op->atom - DW_OP_lit0;
		return op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31;
	}
}

static bool register_of(const Dwarf_Op *op, struct signature_piece *piece)
{
	uint64_t number = op->atom == DW_OP_regx ? op->number : (uint64_t)op->atom - DW_OP_reg0;

	if (op->atom != DW_OP_regx && (op->atom < DW_OP_reg0 || op->atom > DW_OP_reg31))
		return false;
	piece->kind = SIGNATURE_PIECE_REGISTER;
	piece->reg = (uint8_t)number;
	if (number < VECTOR_FIRST)
		return true;
	piece->kind = SIGNATURE_PIECE_VECTOR;
	piece->reg = (uint8_t)(number - VECTOR_FIRST);
	return number - VECTOR_FIRST < VECTORS;
}

/* The operations up to the next piece; *used: how many. */
static bool read_piece(const Dwarf_Op *ops, size_t n, struct signature_piece *piece, size_t *used)
{
	piece->kind = SIGNATURE_PIECE_GONE;
	*used = 0;
	if (ops[0].atom == DW_OP_piece)
		return true;
	if (register_of(&ops[0], piece)) {
		*used = 1;
		return true;
	}
	if (n < 2 || ops[1].atom != DW_OP_stack_value || !location_constant(&ops[0], &piece->value))
		return false;
	piece->kind = SIGNATURE_PIECE_CONSTANT;
	*used = 2;
	return true;
}

static bool read_pieces(struct signature_value *v, const Dwarf_Op *ops, size_t n)
{
	uint64_t offset = 0;

	for (size_t i = 0; i < n;) {
		struct signature_piece piece = { .offset = (uint16_t)offset };
		size_t used;
		if (!read_piece(&ops[i], n - i, &piece, &used))
			return false;
		i += used;
		uint64_t size = i < n ? ops[i].number : v->type->size;
		if ((i < n && ops[i].atom != DW_OP_piece) || size > SIGNATURE_BYTES_MAX - offset)
			return false;
		/* A general register has 8 bytes: what is stated to lie behind is not known. */
		if (piece.kind == SIGNATURE_PIECE_REGISTER && size > 8)
			return false;
		piece.size = (uint8_t)size;
		if (!signature_piece_add(v, &piece))
			return false;
		offset += size;
		i++;
	}
	return v->piece_count > 0;
}

bool signature_by_location(struct signature_value *v, Dwarf_Die *die, Dwarf_Addr pc)
{
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	Dwarf_Word constant;
	size_t n;

	if (dwarf_attr_integrate(die, DW_AT_const_value, &attr) &&
	    !dwarf_formudata(&attr, &constant)) {
		v->where = SIGNATURE_CONSTANT;
		v->constant = constant;
		return true;
	}
	if (!dwarf_attr_integrate(die, DW_AT_location, &attr) ||
	    dwarf_getlocation_addr(&attr, pc, &ops, &n, 1) != 1 || !n)
		return false;
	v->piece_count = 0;
	/* GCC exchanges the halves of __int128 in its lists, from -O1 on. */
	if (!read_pieces(v, ops, n) || (v->piece_count > 1 && !type_has_members(v->type))) {
		v->piece_count = 0;
		return false;
	}
	v->where = SIGNATURE_PIECES;
	v->regs = 0;
	return true;
}
