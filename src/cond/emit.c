/* SPDX-License-Identifier: MIT */
/*
 * emit.c - see emit.h. Must mean what eval.c means, bit for bit.
 *
 * No matter what the parser accepts must pass the verifier. Its cost grows with the number of
 * different states at the points where branches meet; a truth value made by a branch is two states.
 * So each is mixed with a zero that the verifier cannot see through: from there on both are one.
 */
#include "cond/emit.h"

#include <errno.h>
#include <linux/bpf.h>
#include <string.h>

#include "cond/emit_float.h"
#include "cond/order.h"
#include "cond/soft.h"

struct emitter {
	struct ebpf *p;
	const struct condition *c;
	const struct cond_place *place;
	uint32_t faults[COND_STEPS_MAX * 2];
	uint32_t fault_count;
	uint32_t jumps[COND_STEPS_MAX]; /* eBPF jump of each step that jumps */
	int err;
};

static int16_t slot_at(const struct emitter *e, uint32_t height)
{
	return (int16_t)(e->place->frame_at + COND_BUFFER_BYTES + 8 * (int)height);
}

static void load_slot(struct emitter *e, int reg, uint32_t height)
{
	ebpf_load_mem(e->p, BPF_DW, reg, R10, slot_at(e, height));
}

static void store_slot(struct emitter *e, uint32_t height, int reg)
{
	ebpf_store(e->p, BPF_DW, R10, slot_at(e, height), reg);
}

static void fault_unless_zero(struct emitter *e)
{
	e->faults[e->fault_count++] = ebpf_jump_imm(e->p, BPF_JNE, R0, 0);
}

static void launder(struct emitter *e, int reg)
{
	ebpf_load_mem(e->p, BPF_DW, R5, e->place->control, e->place->zero_at);
	ebpf_alu(e->p, BPF_XOR, reg, R5);
}

/* R3 is a user address: n bytes of it into the buffer. */
static void read_user(struct emitter *e, uint32_t n)
{
	ebpf_mov(e->p, R1, R10);
	ebpf_alu_imm(e->p, BPF_ADD, R1, e->place->frame_at);
	ebpf_mov_imm(e->p, R2, (int32_t)n);
	ebpf_call(e->p, BPF_FUNC_probe_read_user);
	fault_unless_zero(e);
}

static void emit_extend(struct emitter *e, int reg, uint32_t size, int is_signed)
{
	int32_t unused = (int32_t)(64 - 8 * size);

	if (!unused)
		return;
	ebpf_alu_imm(e->p, BPF_LSH, reg, unused);
	ebpf_alu_imm(e->p, is_signed ? BPF_ARSH : BPF_RSH, reg, unused);
}

static const uint8_t memory_size[] = { [1] = BPF_B, [2] = BPF_H, [4] = BPF_W, [8] = BPF_DW };

static void emit_load(struct emitter *e, const struct cond_step *step)
{
	load_slot(e, R3, step->height - 1u);
	read_user(e, step->size);
	ebpf_load_mem(e->p, memory_size[step->size], R1, R10, e->place->frame_at);
	emit_extend(e, R1, step->size, step->is_signed);
	store_slot(e, step->height - 1u, R1);
}

/* Compares the buffer with a constant; R1 becomes 1 when equal, else 0. */
static void compare_buffer(struct emitter *e, const char *bytes, uint32_t len)
{
	uint32_t differ[COND_STRING_MAX];
	uint32_t n = 0;

	for (uint32_t at = 0, size = 8; at < len; at += size) {
		uint64_t want = 0;

		while (size > len - at)
			size /= 2;
		memcpy(&want, bytes + at, size);
		ebpf_load_mem(e->p, memory_size[size], R1, R10,
			      (int16_t)(e->place->frame_at + (int)at));
		ebpf_load_imm64(e->p, R2, want);
		differ[n++] = ebpf_jump(e->p, BPF_JNE, R1, R2);
	}
	ebpf_mov_imm(e->p, R1, 1);
	uint32_t end = ebpf_jump_imm(e->p, BPF_JA, 0, 0);

	while (n--)
		ebpf_land(e->p, differ[n]);
	ebpf_mov_imm(e->p, R1, 0);
	ebpf_land(e->p, end);
	launder(e, R1);
}

static void emit_string(struct emitter *e, const struct cond_step *step)
{
	load_slot(e, R3, step->height - 1u);
	read_user(e, step->size);
	compare_buffer(e, e->c->strings + step->arg, step->size);
	store_slot(e, step->height - 1u, R1);
}

static void emit_thread(struct emitter *e, const struct cond_step *step)
{
	/* The helper of Linux 6.1 leaves what lies behind the end of the name as it was. */
	for (int at = 0; at < COND_THREAD_NAME; at += 8)
		ebpf_store_imm(e->p, BPF_DW, R10, (int16_t)(e->place->frame_at + at), 0);
	ebpf_mov(e->p, R1, R10);
	ebpf_alu_imm(e->p, BPF_ADD, R1, e->place->frame_at);
	ebpf_mov_imm(e->p, R2, COND_THREAD_NAME);
	ebpf_call(e->p, BPF_FUNC_get_current_comm);
	compare_buffer(e, e->c->strings + step->arg, step->size);
	store_slot(e, step->height, R1);
}

/* R1 becomes 1 when R1 op R2, else 0. */
static void emit_truth(struct emitter *e, int jump_op)
{
	uint32_t yes = ebpf_jump(e->p, jump_op, R1, R2);

	ebpf_mov_imm(e->p, R1, 0);
	uint32_t end = ebpf_jump_imm(e->p, BPF_JA, 0, 0);

	ebpf_land(e->p, yes);
	ebpf_mov_imm(e->p, R1, 1);
	ebpf_land(e->p, end);
	launder(e, R1);
}

static void emit_divide(struct emitter *e, const struct cond_step *step)
{
	int op = step->op == COND_MOD ? BPF_MOD : BPF_DIV;

	e->faults[e->fault_count++] = ebpf_jump_imm(e->p, BPF_JEQ, R2, 0);
	if (!step->is_signed) {
		ebpf_alu(e->p, op, R1, R2);
		return;
	}
	/* eBPF divides unsigned numbers only (signed since v6.6): by magnitude, then the sign. */
	ebpf_mov(e->p, R3, R1);
	if (step->op == COND_DIV)
		ebpf_alu(e->p, BPF_XOR, R3, R2);
	uint32_t plus = ebpf_jump_imm(e->p, BPF_JSGE, R1, 0);
	ebpf_alu_imm(e->p, BPF_NEG, R1, 0);
	ebpf_land(e->p, plus);
	launder(e, R1);
	plus = ebpf_jump_imm(e->p, BPF_JSGE, R2, 0);
	ebpf_alu_imm(e->p, BPF_NEG, R2, 0);
	ebpf_land(e->p, plus);
	launder(e, R2);
	ebpf_alu(e->p, op, R1, R2);
	plus = ebpf_jump_imm(e->p, BPF_JSGE, R3, 0);
	ebpf_alu_imm(e->p, BPF_NEG, R1, 0);
	ebpf_land(e->p, plus);
	launder(e, R1);
}

static void emit_binary(struct emitter *e, const struct cond_step *step)
{
	static const uint8_t alu[COND_OP_COUNT] = {
		[COND_ADD] = BPF_ADD, [COND_SUB] = BPF_SUB, [COND_MUL] = BPF_MUL,
		[COND_AND] = BPF_AND, [COND_OR] = BPF_OR,   [COND_XOR] = BPF_XOR,
	};
	static const uint8_t jump[COND_OP_COUNT][2] = {
		[COND_EQ] = { BPF_JEQ, BPF_JEQ },  [COND_NE] = { BPF_JNE, BPF_JNE },
		[COND_LT] = { BPF_JLT, BPF_JSLT }, [COND_LE] = { BPF_JLE, BPF_JSLE },
		[COND_GT] = { BPF_JGT, BPF_JSGT }, [COND_GE] = { BPF_JGE, BPF_JSGE },
	};

	load_slot(e, R1, step->height - 2u);
	load_slot(e, R2, step->height - 1u);
	if (step->op == COND_DIV || step->op == COND_MOD) {
		emit_divide(e, step);
	} else if (step->op == COND_SHL || step->op == COND_SHR) {
		ebpf_alu_imm(e->p, BPF_AND, R2, 63);
		ebpf_alu(e->p,
			 step->op == COND_SHL ? BPF_LSH :
			 step->is_signed      ? BPF_ARSH :
						BPF_RSH,
			 R1, R2);
	} else if (step->op >= COND_EQ) {
		emit_truth(e, jump[step->op][step->is_signed]);
	} else {
		ebpf_alu(e->p, alu[step->op], R1, R2);
	}
	store_slot(e, step->height - 2u, R1);
}

static void emit_arithmetic(struct emitter *e, const struct cond_step *step)
{
	static const uint8_t function[COND_OP_COUNT] = { [COND_FADD] = FLOAT_ADD,
							 [COND_FSUB] = FLOAT_ADD,
							 [COND_FMUL] = FLOAT_MULTIPLY,
							 [COND_FDIV] = FLOAT_DIVIDE };

	load_slot(e, R1, step->height - 2u);
	load_slot(e, R2, step->height - 1u);
	if (step->op == COND_FSUB) {
		ebpf_load_imm64(e->p, R3, ORDER_SIGN);
		ebpf_alu(e->p, BPF_XOR, R2, R3);
	}
	float_call(e->p, (enum float_function)function[step->op]);
	launder(e, R0);
	store_slot(e, step->height - 2u, R0);
}

/* As soft_for_float(), of R1. */
static void emit_for_float(struct emitter *e)
{
	ebpf_mov(e->p, R4, R1);
	ebpf_alu_imm(e->p, BPF_RSH, R4, 53);
	uint32_t is_small = ebpf_jump_imm(e->p, BPF_JEQ, R4, 0);
	uint32_t is_exact = ebpf_jump_imm(e->p, BPF_JSET, R1, 0x7ff);
	uint32_t end = ebpf_jump_imm(e->p, BPF_JA, 0, 0);

	ebpf_land(e->p, is_exact);
	ebpf_alu_imm(e->p, BPF_AND, R1, ~0x7ff);
	ebpf_alu_imm(e->p, BPF_OR, R1, 0x800);
	ebpf_land(e->p, is_small);
	ebpf_land(e->p, end);
	launder(e, R1);
}

/* R1 -> R0 */
static void emit_to_float(struct emitter *e, const struct cond_step *step)
{
	ebpf_mov_imm(e->p, R2, 0);
	if (step->is_signed) {
		ebpf_mov(e->p, R2, R1);
		ebpf_alu_imm(e->p, BPF_RSH, R2, 63);
		ebpf_alu_imm(e->p, BPF_LSH, R2, 63);
		uint32_t is_plus = ebpf_jump_imm(e->p, BPF_JSGE, R1, 0);
		ebpf_alu_imm(e->p, BPF_NEG, R1, 0);
		ebpf_land(e->p, is_plus);
	}
	launder(e, R1);
	launder(e, R2);
	if (step->size == 4)
		emit_for_float(e);
	ebpf_mov_imm(e->p, R3, SOFT_WHOLE);
	launder(e, R3);
	float_call(e->p, FLOAT_FROM);
	if (step->size == 4) {
		ebpf_mov(e->p, R1, R0);
		float_call(e->p, FLOAT_ROUND);
	}
}

/* R1 -> R0; a fault if the type does not have it. */
static void emit_to_whole(struct emitter *e, const struct cond_step *step)
{
	ebpf_mov(e->p, R2, R1);
	ebpf_alu_imm(e->p, BPF_LSH, R2, 1);
	ebpf_alu_imm(e->p, BPF_RSH, R2, 53);
	uint32_t fits = ebpf_jump_imm(e->p, BPF_JLT, R2, SOFT_BIAS + 63 + !step->is_signed);

	if (step->is_signed) {
		ebpf_load_imm64(e->p, R3, ORDER_SIGN | (uint64_t)(SOFT_BIAS + 63) << 52);
		e->faults[e->fault_count++] = ebpf_jump(e->p, BPF_JNE, R1, R3);
		ebpf_land(e->p, fits);
	} else {
		e->faults[e->fault_count++] = ebpf_jump_imm(e->p, BPF_JA, 0, 0);
		ebpf_land(e->p, fits);
		uint32_t is_plus = ebpf_jump_imm(e->p, BPF_JSGE, R1, 0);
		e->faults[e->fault_count++] = ebpf_jump_imm(e->p, BPF_JGE, R2, SOFT_BIAS);
		ebpf_land(e->p, is_plus);
	}
	launder(e, R1);
	float_call(e->p, FLOAT_WHOLE);
}

/* A conversion of one number, which others may be above. */
static void emit_conversion(struct emitter *e, const struct cond_step *step)
{
	const uint32_t slot = step->height - 1u - step->arg;

	load_slot(e, R1, slot);
	if (step->op == COND_TO_FLOAT)
		emit_to_float(e, step);
	else if (step->op == COND_TO_WHOLE)
		emit_to_whole(e, step);
	else
		float_call(e->p, step->op == COND_WIDEN ? FLOAT_WIDEN : FLOAT_ROUND);
	launder(e, R0);
	store_slot(e, slot, R0);
}

/* Normalizes a fraction by some bits: R1 below the limit is shifted, R3 is the exponent. */
static void emit_normalize(struct emitter *e, int32_t limit, int32_t bits)
{
	uint32_t enough = ebpf_jump_imm(e->p, BPF_JGE, R1, limit);

	ebpf_alu_imm(e->p, BPF_LSH, R1, bits);
	ebpf_alu_imm(e->p, BPF_SUB, R3, bits);
	ebpf_land(e->p, enough);
	launder(e, R1);
	launder(e, R3);
}

/*
 * R1, the bits of a float, becomes those of a double; as order_widen(). R2 is the sign, R3 the
 * exponent.
 */
static void emit_widen(struct emitter *e)
{
	ebpf_alu_imm(e->p, BPF_LSH, R1, 32);
	ebpf_mov(e->p, R2, R1);
	ebpf_alu_imm(e->p, BPF_RSH, R2, 63);
	ebpf_alu_imm(e->p, BPF_LSH, R2, 63);
	ebpf_mov(e->p, R3, R1);
	ebpf_alu_imm(e->p, BPF_LSH, R3, 1);
	ebpf_alu_imm(e->p, BPF_RSH, R3, 56);
	ebpf_alu_imm(e->p, BPF_LSH, R1, 9);
	ebpf_alu_imm(e->p, BPF_RSH, R1, 41);

	uint32_t is_nan = ebpf_jump_imm(e->p, BPF_JEQ, R3, 0xff);
	uint32_t is_normal = ebpf_jump_imm(e->p, BPF_JNE, R3, 0);
	uint32_t is_zero = ebpf_jump_imm(e->p, BPF_JEQ, R1, 0);
	ebpf_mov_imm(e->p, R3, 1);
	for (int32_t bits = 16; bits; bits /= 2)
		emit_normalize(e, 1 << (24 - bits), bits);
	ebpf_alu_imm(e->p, BPF_AND, R1, 0x7fffff);
	ebpf_land(e->p, is_normal);
	ebpf_alu_imm(e->p, BPF_ADD, R3, 1023 - 127);
	uint32_t finite = ebpf_jump_imm(e->p, BPF_JA, 0, 0);
	ebpf_land(e->p, is_nan);
	ebpf_mov_imm(e->p, R3, 0x7ff);
	ebpf_land(e->p, finite);
	ebpf_land(e->p, is_zero);
	launder(e, R3);
	ebpf_alu_imm(e->p, BPF_LSH, R3, 52);
	ebpf_alu_imm(e->p, BPF_LSH, R1, 29);
	ebpf_alu(e->p, BPF_OR, R1, R3);
	ebpf_alu(e->p, BPF_OR, R1, R2);
}

/* As order_of(). */
static void emit_order(struct emitter *e, const struct cond_step *step)
{
	if (step->size == 4)
		emit_widen(e);
	ebpf_mov(e->p, R2, R1);
	ebpf_alu_imm(e->p, BPF_LSH, R2, 1);
	ebpf_load_imm64(e->p, R3, ORDER_INFINITY << 1);
	uint32_t is_nan = ebpf_jump(e->p, BPF_JGT, R2, R3);
	ebpf_load_imm64(e->p, R3, ORDER_SIGN);
	uint32_t is_other = ebpf_jump_imm(e->p, BPF_JNE, R2, 0);
	ebpf_mov_imm(e->p, R1, 0);
	ebpf_land(e->p, is_other);
	uint32_t is_plus = ebpf_jump_imm(e->p, BPF_JSGE, R1, 0);
	ebpf_alu_imm(e->p, BPF_XOR, R1, -1);
	uint32_t minus = ebpf_jump_imm(e->p, BPF_JA, 0, 0);
	ebpf_land(e->p, is_plus);
	ebpf_alu(e->p, BPF_OR, R1, R3);
	uint32_t end = ebpf_jump_imm(e->p, BPF_JA, 0, 0);
	ebpf_land(e->p, is_nan);
	ebpf_load_imm64(e->p, R1, step->imm);
	ebpf_land(e->p, minus);
	ebpf_land(e->p, end);
	launder(e, R1);
}

static void emit_unary(struct emitter *e, const struct cond_step *step)
{
	const uint32_t slot = step->height - 1u - step->arg;

	load_slot(e, R1, slot);
	switch (step->op) {
	case COND_NEG:
		ebpf_alu_imm(e->p, BPF_NEG, R1, 0);
		break;
	case COND_INV:
		ebpf_alu_imm(e->p, BPF_XOR, R1, -1);
		break;
	case COND_NOT:
	case COND_BOOL:
		ebpf_mov_imm(e->p, R2, 0);
		emit_truth(e, step->op == COND_NOT ? BPF_JEQ : BPF_JNE);
		break;
	case COND_ORDER:
		emit_order(e, step);
		break;
	case COND_IN:
		ebpf_load_imm64(e->p, R2, step->imm);
		ebpf_alu(e->p, BPF_SUB, R1, R2);
		ebpf_load_imm64(e->p, R2, step->imm2 - step->imm);
		emit_truth(e, BPF_JLT);
		break;
	default:
		emit_extend(e, R1, step->size, step->is_signed);
	}
	store_slot(e, slot, R1);
}

static void emit_context(struct emitter *e, int16_t at)
{
	ebpf_load_mem(e->p, BPF_DW, R1, e->place->context, at);
}

static void emit_caller(struct emitter *e)
{
	const struct cond_place *place = e->place;

	emit_context(e, place->regs_at[place->caller_reg]);
	if (!place->caller_in_memory)
		return;
	ebpf_mov(e->p, R3, R1);
	ebpf_alu_imm(e->p, BPF_ADD, R3, place->caller_add);
	read_user(e, 8);
	ebpf_load_mem(e->p, BPF_DW, R1, R10, place->frame_at);
}

/* The id of the thread or, above it, of the process: signed 32-bit numbers. */
static void emit_id(struct emitter *e, int is_pid)
{
	ebpf_current_ids(e->p, &e->place->ids, e->place->frame_at);
	ebpf_mov(e->p, R1, R0);
	if (is_pid)
		ebpf_alu_imm(e->p, BPF_RSH, R1, 32);
	emit_extend(e, R1, 4, 1);
}

static void emit_changed(struct emitter *e)
{
	ebpf_load_mem(e->p, BPF_DW, R1, R10, e->place->terms_at[COND_OLD]);
	ebpf_load_mem(e->p, BPF_DW, R2, R10, e->place->terms_at[COND_NEW]);
	emit_truth(e, BPF_JNE);
}

static void emit_term(struct emitter *e, const struct cond_step *step)
{
	switch (step->arg) {
	case COND_CHANGED:
		emit_changed(e);
		break;
	case COND_ADDR:
		emit_context(e, e->place->addr_at);
		break;
	case COND_IP:
		emit_context(e, e->place->regs_at[e->place->ip_reg]);
		break;
	case COND_TID:
	case COND_PID:
		emit_id(e, step->arg == COND_PID);
		break;
	case COND_CPU:
		ebpf_call(e->p, BPF_FUNC_get_smp_processor_id);
		ebpf_mov(e->p, R1, R0);
		break;
	case COND_CALLER:
		emit_caller(e);
		break;
	default:
		ebpf_load_mem(e->p, BPF_DW, R1, R10, e->place->terms_at[step->arg]);
	}
	store_slot(e, step->height, R1);
}

static void emit_count(struct emitter *e, const struct cond_step *step)
{
	int map_fd = e->place->count_maps[step->arg];

	if (map_fd < 0)
		e->err = -EOPNOTSUPP;
	ebpf_load_map_value(e->p, R2, map_fd, e->place->count_at);
	ebpf_load_mem(e->p, BPF_DW, R1, R2, 0);
	store_slot(e, step->height, R1);
}

static void emit_jump(struct emitter *e, uint32_t index)
{
	const struct cond_step *step = &e->c->steps[index];

	if (step->op == COND_JUMP) {
		e->jumps[index] = ebpf_jump_imm(e->p, BPF_JA, 0, 0);
		return;
	}
	load_slot(e, R1, step->height - 1u);
	e->jumps[index] =
		ebpf_jump_imm(e->p, step->op == COND_JUMP_IF_1_KEEP ? BPF_JNE : BPF_JEQ, R1, 0);
}

static void emit_step(struct emitter *e, uint32_t index)
{
	const struct cond_step *step = &e->c->steps[index];

	switch (step->op) {
	case COND_PUSH:
		ebpf_load_imm64(e->p, R1, step->imm);
		/* A known number would let the verifier prove branches dead, one by one. */
		launder(e, R1);
		store_slot(e, step->height, R1);
		break;
	case COND_TERM:
		emit_term(e, step);
		break;
	case COND_REG:
		emit_context(e, e->place->regs_at[step->arg]);
		store_slot(e, step->height, R1);
		break;
	case COND_COUNT:
		emit_count(e, step);
		break;
	case COND_LOAD:
		emit_load(e, step);
		break;
	case COND_STRING:
		emit_string(e, step);
		break;
	case COND_THREAD:
		emit_thread(e, step);
		break;
	case COND_POP:
		break;
	default:
		if (step->op > COND_THREAD)
			emit_jump(e, index);
		else if (step->op >= COND_WIDEN && step->op <= COND_TO_WHOLE)
			emit_conversion(e, step);
		else if (step->op >= COND_FADD && step->op <= COND_FDIV)
			emit_arithmetic(e, step);
		else if (step->op <= COND_BOOL || step->op == COND_IN)
			emit_unary(e, step);
		else
			emit_binary(e, step);
	}
}

/* Jumps of the condition that end at this step. */
static void land_at(struct emitter *e, uint32_t index)
{
	for (uint32_t i = 0; i < index; i++)
		if (e->c->steps[i].op >= COND_JUMP_IF_0 && e->c->steps[i].op <= COND_JUMP &&
		    e->c->steps[i].target == index)
			ebpf_land(e->p, e->jumps[i]);
}

int cond_emit(struct ebpf *p, const struct condition *c, const struct cond_place *place)
{
	struct emitter e = { .p = p, .c = c, .place = place };

	/* The kernel keeps those of vectors where no program can read them. */
	if (cond_uses_vectors(c))
		return -EOPNOTSUPP;
	for (uint32_t i = 0; i < c->count; i++) {
		land_at(&e, i);
		emit_step(&e, i);
	}
	land_at(&e, c->count);
	load_slot(&e, R0, 0);
	uint32_t is_false = ebpf_jump_imm(p, BPF_JEQ, R0, 0);

	ebpf_mov_imm(p, R0, 1);
	uint32_t end = e.fault_count ? ebpf_jump_imm(p, BPF_JA, 0, 0) : 0;

	for (uint32_t i = 0; i < e.fault_count; i++)
		ebpf_land(p, e.faults[i]);
	if (e.fault_count) {
		ebpf_mov_imm(p, R0, 2);
		ebpf_land(p, end);
	}
	ebpf_land(p, is_false);
	return e.err;
}
