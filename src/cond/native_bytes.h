/* SPDX-License-Identifier: MIT */
/* native_bytes.h - the few forms of x86-64 instructions that native_x86_64.c writes. */
#ifndef COND_NATIVE_BYTES_H
#define COND_NATIVE_BYTES_H

#include <string.h>

#include "cond/native.h"

/* Numbers of the machine, not DWARF's. */
enum machine_reg {
	RAX,
	RCX,
	RDX,
	RBX,
	RSP
};

/* Opcodes of the form register, register or memory. */
enum {
	OP_ADD = 0x03,
	OP_OR = 0x0b,
	OP_AND = 0x23,
	OP_SUB = 0x2b,
	OP_XOR = 0x33,
	OP_CMP = 0x3b,
	OP_MOV = 0x8b
};

static inline void native_byte(struct native_code *code, uint32_t value)
{
	if (code->length == NATIVE_BYTES_MAX)
		code->is_full = 1;
	else
		code->bytes[code->length++] = (uint8_t)value;
}

static inline void native_word(struct native_code *code, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		native_byte(code, value >> 8 * i);
}

/* A 64-bit operation: opcode, two registers. */
static inline void native_op_reg(struct native_code *code, uint32_t opcode, uint32_t reg,
				 uint32_t other)
{
	native_byte(code, 0x48 | (reg & 8) >> 1 | (other & 8) >> 3);
	native_byte(code, opcode);
	native_byte(code, 0xc0 | (reg & 7) << 3 | (other & 7));
}

/* The same with the memory at rsp + at. */
static inline void native_op_frame(struct native_code *code, uint32_t opcode, uint32_t reg,
				   int32_t at)
{
	native_byte(code, 0x48 | (reg & 8) >> 1);
	native_byte(code, opcode);
	native_byte(code, 0x84 | (reg & 7) << 3);
	native_byte(code, 0x24);
	native_word(code, (uint32_t)at);
}

static inline int native_fits_32(uint64_t imm)
{
	return imm == (uint64_t)(int64_t)(int32_t)imm;
}

/* opcode & 0x38 is also the number of the form with a constant. */
static inline void native_op_imm(struct native_code *code, uint32_t opcode, uint32_t reg,
				 uint64_t imm)
{
	int is_byte = imm == (uint64_t)(int64_t)(int8_t)imm;

	native_byte(code, 0x48 | (reg & 8) >> 3);
	native_byte(code, is_byte ? 0x83 : 0x81);
	native_byte(code, 0xc0 | (opcode & 0x38) | (reg & 7));
	if (is_byte)
		native_byte(code, (uint32_t)imm);
	else
		native_word(code, (uint32_t)imm);
}

/* F7 and its like: the opcode has a number in place of the first register. */
static inline void native_op_unary(struct native_code *code, uint32_t opcode, uint32_t number,
				   uint32_t reg)
{
	native_op_reg(code, opcode, number, reg);
}

/* Leaves the flags alone. */
static inline void native_move_imm(struct native_code *code, uint32_t reg, uint64_t imm)
{
	if (imm == (uint32_t)imm) {
		native_byte(code, 0xb8 | reg);
		native_word(code, (uint32_t)imm);
		return;
	}
	native_byte(code, 0x48);
	if (native_fits_32(imm)) {
		native_byte(code, 0xc7);
		native_byte(code, 0xc0 | reg);
		native_word(code, (uint32_t)imm);
		return;
	}
	native_byte(code, 0xb8 | reg);
	native_word(code, (uint32_t)imm);
	native_word(code, (uint32_t)(imm >> 32));
}

/* mov of so many bytes, to rax from where it points */
static inline void native_load_acc(struct native_code *code, uint32_t size, int is_signed)
{
	uint32_t narrow = size == 1 ? 0xb6 : 0xb7;

	if (size == 4 && !is_signed) {
		native_byte(code, 0x8b);
		native_byte(code, 0);
		return;
	}
	native_byte(code, 0x48);
	if (size < 4) {
		native_byte(code, 0x0f);
		native_byte(code, is_signed ? narrow | 8 : narrow);
	} else {
		native_byte(code, size == 4 ? 0x63 : OP_MOV);
	}
	native_byte(code, 0);
}

static inline void native_set_distance(struct native_code *code, uint32_t at, uint32_t to)
{
	uint32_t distance = to - (at + 4);

	memcpy(code->bytes + at, &distance, 4);
}

/* movq rax, xmm */
static inline void native_vector_acc(struct native_code *code, uint32_t number)
{
	native_byte(code, 0x66);
	native_byte(code, 0x48 | (number & 8) >> 1);
	native_byte(code, 0x0f);
	native_byte(code, 0x7e);
	native_byte(code, 0xc0 | (number & 7) << 3);
}

/* lahf; seto al: all six flags are in ax, and in the frame. */
static inline void native_save_flags(struct native_code *code, int32_t at)
{
	native_byte(code, 0x9f);
	native_byte(code, 0x0f);
	native_byte(code, 0x90);
	native_byte(code, 0xc0);
	native_op_frame(code, 0x89, RAX, at);
}

/* add al, 0x7f: overflows if it was set; sahf: the others */
static inline void native_restore_flags(struct native_code *code, int32_t at)
{
	native_op_frame(code, OP_MOV, RAX, at);
	native_byte(code, 0x04);
	native_byte(code, 0x7f);
	native_byte(code, 0x9e);
}

#endif
