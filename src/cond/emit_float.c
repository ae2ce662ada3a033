/* SPDX-License-Identifier: MIT */
/*
 * emit_float.c - see emit_float.h. Must mean what soft.h means, bit for bit.
 *
 * The functions come behind the program, and only those that it calls. None has a frame or calls
 * another: older kernels take 32 bytes of the program's 512 for each that is active.
 *
 * The verifier follows each branch as long as it knows something about the exponent that decides a
 * later one. So there are few branches; what is 0 or 1 is made by shifts. Where a branch reveals an
 * exponent, it is that of a copy with other origin.
 */
#include "cond/emit_float.h"

#include <linux/bpf.h>

#include "cond/emit.h"
#include "cond/soft.h"

/* Until its function is written, a call has this number. */
static int32_t unwritten(enum float_function function)
{
	return -1 - (int32_t)function;
}

void float_call(struct ebpf *p, enum float_function function)
{
	ebpf_emit(p, BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, unwritten(function));
}

static void shift_left(struct ebpf *p, int reg, int32_t bits)
{
	ebpf_alu_imm(p, BPF_LSH, reg, bits);
}

static void shift_right(struct ebpf *p, int reg, int32_t bits)
{
	ebpf_alu_imm(p, BPF_RSH, reg, bits);
}

/* to = (from << left) >> right */
static void cut(struct ebpf *p, int to, int from, int32_t left, int32_t right)
{
	if (to != from)
		ebpf_mov(p, to, from);
	if (left)
		shift_left(p, to, left);
	if (right)
		shift_right(p, to, right);
}

static void emit_return(struct ebpf *p, int reg)
{
	if (reg != R0)
		ebpf_mov(p, R0, reg);
	ebpf_exit(p);
}

static void return_constant(struct ebpf *p, uint64_t number)
{
	ebpf_load_imm64(p, R0, number);
	ebpf_exit(p);
}

/* As soft_shift(); uses two more registers. */
static void emit_shift(struct ebpf *p, int fraction, int bits, int old, int back)
{
	ebpf_mov_imm(p, old, 63);
	ebpf_alu(p, BPF_SUB, old, bits);
	ebpf_alu_imm(p, BPF_ARSH, old, 63);
	ebpf_alu(p, BPF_OR, bits, old);
	ebpf_alu_imm(p, BPF_AND, bits, 63);
	ebpf_mov(p, old, fraction);
	ebpf_alu(p, BPF_RSH, fraction, bits);
	ebpf_mov(p, back, fraction);
	ebpf_alu(p, BPF_LSH, back, bits);
	ebpf_alu(p, BPF_XOR, back, old);
	ebpf_alu_imm(p, BPF_NEG, back, 0);
	shift_right(p, back, 63); /* 1 unless they are the same */
	ebpf_alu(p, BPF_OR, fraction, back);
}

/* The first bit of the fraction becomes bit `top`. */
static void emit_normalize(struct ebpf *p, int fraction, int exponent, int32_t top, int scratch)
{
	for (int32_t log = 5; log >= 0; log--) {
		/* Shift by this many bits if so many are 0: less 1, those are negative. */
		cut(p, scratch, fraction, 0, top + 1 - (1 << log));
		ebpf_alu_imm(p, BPF_SUB, scratch, 1);
		shift_right(p, scratch, 63);
		shift_left(p, scratch, log);
		ebpf_alu(p, BPF_LSH, fraction, scratch);
		ebpf_alu(p, BPF_SUB, exponent, scratch);
	}
}

/* As soft_rounded(): into the fraction. Uses three more registers. */
static void emit_rounded(struct ebpf *p, int exponent, int fraction, const int *scratch,
			 int32_t extra, int32_t bits)
{
	uint32_t is_normal = ebpf_jump_imm(p, BPF_JSGT, exponent, 0);

	ebpf_mov_imm(p, scratch[0], 1);
	ebpf_alu(p, BPF_SUB, scratch[0], exponent);
	emit_shift(p, fraction, scratch[0], scratch[1], scratch[2]);
	ebpf_mov_imm(p, exponent, 1);
	ebpf_land(p, is_normal);
	cut(p, scratch[0], fraction, 0, extra);
	ebpf_alu_imm(p, BPF_AND, scratch[0], 1);
	ebpf_alu(p, BPF_ADD, fraction, scratch[0]);
	ebpf_alu_imm(p, BPF_ADD, fraction, (1 << (extra - 1)) - 1);
	shift_right(p, fraction, extra);
	ebpf_alu_imm(p, BPF_SUB, exponent, 1);
	shift_left(p, exponent, bits);
	ebpf_alu(p, BPF_ADD, fraction, exponent);
}

/* As soft_pack(): R1 sign, R2 exponent, R3 fraction. Returns. */
static void emit_pack(struct ebpf *p)
{
	static const int scratch[] = { R4, R5, R0 };
	uint32_t is_other = ebpf_jump_imm(p, BPF_JNE, R3, 0);

	emit_return(p, R1);
	ebpf_land(p, is_other);
	emit_normalize(p, R3, R2, 62, R4);
	emit_rounded(p, R2, R3, scratch, 10, 52);
	ebpf_load_imm64(p, R4, ORDER_INFINITY);
	uint32_t fits = ebpf_jump(p, BPF_JLE, R3, R4);
	ebpf_mov(p, R3, R4);
	ebpf_land(p, fits);
	ebpf_alu(p, BPF_OR, R3, R1);
	emit_return(p, R3);
}

/* As soft_parts(). The bits are lost. */
static void emit_parts(struct ebpf *p, int bits, int fraction, int exponent, int scratch)
{
	cut(p, exponent, bits, 1, 53);
	cut(p, fraction, bits, 12, 12);
	cut(p, scratch, bits, 1, 53);
	uint32_t is_small = ebpf_jump_imm(p, BPF_JEQ, scratch, 0);
	ebpf_load_imm64(p, scratch, SOFT_HIDDEN);
	ebpf_alu(p, BPF_OR, fraction, scratch);
	uint32_t end = ebpf_jump_imm(p, BPF_JA, 0, 0);
	ebpf_land(p, is_small);
	ebpf_alu_imm(p, BPF_ADD, exponent, 1);
	emit_normalize(p, fraction, exponent, 52, scratch);
	ebpf_land(p, end);
}

/* R3 and R4: R1 and R2 without their signs, shifted; R5: infinity. Returns if either is a NaN. */
static void emit_begin(struct ebpf *p)
{
	cut(p, R3, R1, 1, 0);
	cut(p, R4, R2, 1, 0);
	ebpf_load_imm64(p, R5, ORDER_INFINITY << 1);
	uint32_t is_nan = ebpf_jump(p, BPF_JGT, R3, R5);
	uint32_t is_number = ebpf_jump(p, BPF_JLE, R4, R5);
	ebpf_land(p, is_nan);
	return_constant(p, SOFT_NAN);
	ebpf_land(p, is_number);
}

/* As soft_guarded(); the exponent of the small ones is 1. */
static void emit_guarded(struct ebpf *p, int bits, int fraction, int exponent, int scratch)
{
	cut(p, exponent, bits, 1, 53);
	cut(p, fraction, bits, 12, 3);
	ebpf_mov_imm(p, scratch, 0);
	ebpf_alu(p, BPF_SUB, scratch, exponent);
	shift_right(p, scratch, 63); /* 1 unless it is 0 */
	ebpf_alu_imm(p, BPF_ADD, exponent, 1);
	ebpf_alu(p, BPF_SUB, exponent, scratch);
	shift_left(p, scratch, 61);
	ebpf_alu(p, BPF_OR, fraction, scratch);
}

static void emit_add(struct ebpf *p)
{
	emit_begin(p);
	uint32_t in_order = ebpf_jump(p, BPF_JGE, R3, R4);
	ebpf_mov(p, R0, R1);
	ebpf_mov(p, R1, R2);
	ebpf_mov(p, R2, R0);
	ebpf_land(p, in_order);

	cut(p, R3, R1, 1, 0);
	uint32_t is_finite = ebpf_jump(p, BPF_JNE, R3, R5);
	ebpf_mov(p, R3, R1);
	ebpf_alu(p, BPF_XOR, R3, R2);
	ebpf_load_imm64(p, R4, ORDER_SIGN);
	uint32_t is_nan = ebpf_jump(p, BPF_JEQ, R3, R4);
	emit_return(p, R1);
	ebpf_land(p, is_nan);
	return_constant(p, SOFT_NAN);

	ebpf_land(p, is_finite);
	emit_guarded(p, R1, R3, R7, R0);
	emit_guarded(p, R2, R6, R8, R0);
	ebpf_mov(p, R4, R7);
	ebpf_alu(p, BPF_SUB, R4, R8);
	emit_shift(p, R6, R4, R8, R9);
	ebpf_alu(p, BPF_XOR, R2, R1);
	uint32_t differ = ebpf_jump_imm(p, BPF_JSLT, R2, 0);
	ebpf_alu(p, BPF_ADD, R3, R6);
	uint32_t summed = ebpf_jump_imm(p, BPF_JA, 0, 0);
	ebpf_land(p, differ);
	ebpf_alu(p, BPF_SUB, R3, R6);
	uint32_t remains = ebpf_jump_imm(p, BPF_JNE, R3, 0);
	return_constant(p, 0);
	ebpf_land(p, remains);
	ebpf_land(p, summed);
	shift_right(p, R1, 63);
	shift_left(p, R1, 63);
	ebpf_mov(p, R2, R7);
	ebpf_alu_imm(p, BPF_ADD, R2, 1);
	emit_pack(p);
}

/* R9: the sign of a product or quotient. */
static void emit_sign(struct ebpf *p)
{
	ebpf_mov(p, R9, R1);
	ebpf_alu(p, BPF_XOR, R9, R2);
	shift_right(p, R9, 63);
	shift_left(p, R9, 63);
}

static void return_infinity(struct ebpf *p)
{
	ebpf_load_imm64(p, R0, ORDER_INFINITY);
	ebpf_alu(p, BPF_OR, R0, R9);
	ebpf_exit(p);
}

/* Infinite or 0, as both are; R6 and R8 the fractions, R7 and R5 the exponents of others. */
static void multiply_begin(struct ebpf *p)
{
	emit_begin(p);
	emit_sign(p);
	uint32_t is_infinite = ebpf_jump(p, BPF_JEQ, R3, R5);
	uint32_t is_finite = ebpf_jump(p, BPF_JNE, R4, R5);
	ebpf_land(p, is_infinite);
	uint32_t is_nan = ebpf_jump_imm(p, BPF_JEQ, R3, 0);
	uint32_t is_number = ebpf_jump_imm(p, BPF_JNE, R4, 0);
	ebpf_land(p, is_nan);
	return_constant(p, SOFT_NAN);
	ebpf_land(p, is_number);
	return_infinity(p);

	ebpf_land(p, is_finite);
	uint32_t is_zero = ebpf_jump_imm(p, BPF_JEQ, R3, 0);
	uint32_t is_other = ebpf_jump_imm(p, BPF_JNE, R4, 0);
	ebpf_land(p, is_zero);
	emit_return(p, R9);
	ebpf_land(p, is_other);
	emit_parts(p, R1, R6, R7, R0);
	emit_parts(p, R2, R8, R5, R0);
}

/* R1: the high half of R6 * R8; its last bit is 1 if the low half is not 0. */
static void emit_product(struct ebpf *p)
{
	cut(p, R1, R6, 0, 32);
	cut(p, R2, R6, 32, 32);
	cut(p, R3, R8, 0, 32);
	cut(p, R4, R8, 32, 32);
	ebpf_mov(p, R0, R2);
	ebpf_alu(p, BPF_MUL, R0, R4); /* the low halves */
	ebpf_alu(p, BPF_MUL, R4, R1);
	cut(p, R5, R0, 0, 32);
	ebpf_alu(p, BPF_ADD, R4, R5);
	ebpf_alu(p, BPF_MUL, R2, R3);
	cut(p, R5, R4, 32, 32);
	ebpf_alu(p, BPF_ADD, R2, R5);
	ebpf_alu(p, BPF_MUL, R1, R3); /* the high halves */
	shift_right(p, R4, 32);
	ebpf_alu(p, BPF_ADD, R1, R4);
	cut(p, R5, R2, 0, 32);
	ebpf_alu(p, BPF_ADD, R1, R5);
	ebpf_alu(p, BPF_OR, R0, R2);
	shift_left(p, R0, 32);
	uint32_t is_exact = ebpf_jump_imm(p, BPF_JEQ, R0, 0);
	ebpf_alu_imm(p, BPF_OR, R1, 1);
	ebpf_land(p, is_exact);
}

static void emit_multiply(struct ebpf *p)
{
	multiply_begin(p);
	ebpf_alu(p, BPF_ADD, R7, R5);
	ebpf_alu_imm(p, BPF_SUB, R7, SOFT_BIAS - 1);
	shift_left(p, R6, 11);
	shift_left(p, R8, 10);
	emit_product(p);
	ebpf_mov(p, R3, R1);
	ebpf_mov(p, R2, R7);
	ebpf_mov(p, R1, R9);
	emit_pack(p);
}

/* As multiply_begin(). */
static void divide_begin(struct ebpf *p)
{
	emit_begin(p);
	emit_sign(p);
	uint32_t differ = ebpf_jump(p, BPF_JNE, R3, R4);
	uint32_t zeros = ebpf_jump_imm(p, BPF_JEQ, R3, 0);
	uint32_t are_finite = ebpf_jump(p, BPF_JNE, R3, R5);
	ebpf_land(p, zeros);
	return_constant(p, SOFT_NAN);
	ebpf_land(p, differ);
	ebpf_land(p, are_finite);

	uint32_t is_infinite = ebpf_jump(p, BPF_JEQ, R3, R5);
	uint32_t is_finite = ebpf_jump_imm(p, BPF_JNE, R4, 0);
	ebpf_land(p, is_infinite);
	return_infinity(p);
	ebpf_land(p, is_finite);
	uint32_t by_infinity = ebpf_jump(p, BPF_JEQ, R4, R5);
	uint32_t is_other = ebpf_jump_imm(p, BPF_JNE, R3, 0);
	ebpf_land(p, by_infinity);
	emit_return(p, R9);
	ebpf_land(p, is_other);
	emit_parts(p, R1, R6, R7, R0);
	emit_parts(p, R2, R8, R5, R0);
}

static void emit_divide(struct ebpf *p)
{
	divide_begin(p);
	ebpf_alu(p, BPF_SUB, R7, R5);
	ebpf_alu_imm(p, BPF_ADD, R7, SOFT_BIAS);
	ebpf_mov(p, R3, R6);
	ebpf_alu(p, BPF_DIV, R3, R8);
	ebpf_alu(p, BPF_MOD, R6, R8);
	for (int i = 0; i < 5; i++) {
		shift_left(p, R6, 11);
		ebpf_mov(p, R5, R6);
		ebpf_alu(p, BPF_DIV, R5, R8);
		ebpf_alu(p, BPF_MOD, R6, R8);
		shift_left(p, R3, 11);
		ebpf_alu(p, BPF_OR, R3, R5);
	}
	shift_left(p, R3, 7);
	uint32_t is_exact = ebpf_jump_imm(p, BPF_JEQ, R6, 0);
	ebpf_alu_imm(p, BPF_OR, R3, 1);
	ebpf_land(p, is_exact);
	ebpf_mov(p, R2, R7);
	ebpf_mov(p, R1, R9);
	emit_pack(p);
}

static void emit_from(struct ebpf *p)
{
	ebpf_mov(p, R0, R3);
	ebpf_mov(p, R3, R1);
	ebpf_mov(p, R1, R2);
	ebpf_mov(p, R2, R0);
	uint32_t fits = ebpf_jump_imm(p, BPF_JSGE, R3, 0);
	ebpf_mov(p, R4, R3);
	ebpf_alu_imm(p, BPF_AND, R4, 1);
	shift_right(p, R3, 1);
	ebpf_alu(p, BPF_OR, R3, R4);
	ebpf_alu_imm(p, BPF_ADD, R2, 1);
	ebpf_land(p, fits);
	emit_pack(p);
}

static void emit_widen(struct ebpf *p)
{
	shift_left(p, R1, 32);
	cut(p, R2, R1, 0, 63);
	shift_left(p, R2, 63);
	cut(p, R3, R1, 1, 56);
	cut(p, R4, R1, 9, 41);
	cut(p, R0, R1, 1, 56);
	uint32_t is_small = ebpf_jump_imm(p, BPF_JEQ, R0, 0);
	uint32_t is_finite = ebpf_jump_imm(p, BPF_JNE, R0, 0xff);
	ebpf_alu_imm(p, BPF_ADD, R3, SOFT_BIAS - SOFT_BIAS_FLOAT);
	ebpf_land(p, is_finite);
	ebpf_alu_imm(p, BPF_ADD, R3, SOFT_BIAS - SOFT_BIAS_FLOAT);
	shift_left(p, R3, 52);
	shift_left(p, R4, 29);
	ebpf_alu(p, BPF_OR, R4, R3);
	ebpf_alu(p, BPF_OR, R4, R2);
	emit_return(p, R4);

	ebpf_land(p, is_small);
	uint32_t is_other = ebpf_jump_imm(p, BPF_JNE, R4, 0);
	emit_return(p, R2);
	ebpf_land(p, is_other);
	ebpf_alu_imm(p, BPF_ADD, R3, SOFT_BIAS - SOFT_BIAS_FLOAT - 22 + 52);
	emit_normalize(p, R4, R3, 52, R5);
	shift_left(p, R3, 52);
	cut(p, R4, R4, 12, 12);
	ebpf_alu(p, BPF_OR, R4, R3);
	ebpf_alu(p, BPF_OR, R4, R2);
	emit_return(p, R4);
}

static void emit_round(struct ebpf *p)
{
	static const int scratch[] = { R5, R6, R7 };

	cut(p, R2, R1, 1, 0);
	ebpf_load_imm64(p, R3, ORDER_INFINITY << 1);
	uint32_t is_number = ebpf_jump(p, BPF_JLE, R2, R3);
	return_constant(p, SOFT_NAN_FLOAT);
	ebpf_land(p, is_number);
	cut(p, R2, R1, 0, 63);
	shift_left(p, R2, 31);
	cut(p, R3, R1, 1, 53);
	ebpf_alu_imm(p, BPF_SUB, R3, SOFT_BIAS - SOFT_BIAS_FLOAT);
	cut(p, R4, R1, 12, 12);
	ebpf_load_imm64(p, R5, SOFT_HIDDEN);
	ebpf_alu(p, BPF_OR, R4, R5);
	emit_rounded(p, R3, R4, scratch, 29, 23);
	uint32_t fits = ebpf_jump_imm(p, BPF_JLE, R4, (int32_t)SOFT_INFINITY_FLOAT);
	ebpf_mov_imm(p, R4, (int32_t)SOFT_INFINITY_FLOAT);
	ebpf_land(p, fits);
	ebpf_alu(p, BPF_OR, R4, R2);
	emit_return(p, R4);
}

static void emit_whole(struct ebpf *p)
{
	cut(p, R2, R1, 1, 53);
	uint32_t has_whole = ebpf_jump_imm(p, BPF_JGE, R2, SOFT_BIAS);
	return_constant(p, 0);
	ebpf_land(p, has_whole);
	cut(p, R3, R1, 12, 12);
	ebpf_load_imm64(p, R4, SOFT_HIDDEN);
	ebpf_alu(p, BPF_OR, R3, R4);
	ebpf_alu_imm(p, BPF_SUB, R2, SOFT_BIAS + 52);
	uint32_t is_large = ebpf_jump_imm(p, BPF_JSGE, R2, 0);
	ebpf_alu_imm(p, BPF_NEG, R2, 0);
	ebpf_alu(p, BPF_RSH, R3, R2);
	uint32_t shifted = ebpf_jump_imm(p, BPF_JA, 0, 0);
	ebpf_land(p, is_large);
	ebpf_alu(p, BPF_LSH, R3, R2);
	ebpf_land(p, shifted);
	uint32_t is_plus = ebpf_jump_imm(p, BPF_JSGE, R1, 0);
	ebpf_alu_imm(p, BPF_NEG, R3, 0);
	ebpf_land(p, is_plus);
	emit_return(p, R3);
}

void cond_emit_functions(struct ebpf *p)
{
	static void (*const functions[FLOAT_FUNCTION_COUNT])(struct ebpf *) = {
		[FLOAT_ADD] = emit_add,	      [FLOAT_MULTIPLY] = emit_multiply,
		[FLOAT_DIVIDE] = emit_divide, [FLOAT_FROM] = emit_from,
		[FLOAT_WIDEN] = emit_widen,   [FLOAT_ROUND] = emit_round,
		[FLOAT_WHOLE] = emit_whole,
	};
	uint32_t begins[FLOAT_FUNCTION_COUNT] = { 0 };
	const uint32_t count = p->count;

	for (uint32_t i = 0; i < count; i++) {
		struct bpf_insn *in = &p->insns[i];
		const int32_t function = -1 - in->imm;

		if (in->code != (BPF_JMP | BPF_CALL) || in->src_reg != BPF_PSEUDO_CALL ||
		    function < 0 || function >= FLOAT_FUNCTION_COUNT)
			continue;
		if (!begins[function]) {
			begins[function] = p->count;
			functions[function](p);
		}
		in->imm = (int32_t)(begins[function] - i) - 1;
	}
}
