/* SPDX-License-Identifier: MIT */
/*
 * native_x86_64.c - see native.h. Must not reject what eval.c accepts (tests/unit/test_native.c).
 *
 * The numbers of the condition's stack stay where they are as long as possible: a constant, a
 * register of the program, the flags of a comparison. So `arg == 5` is one cmp and one jump. What
 * has to be computed is in rax, and what rax was before is in the frame below the red zone. The
 * first attempt is to do without that frame.
 */
#include "cond/native.h"

#include <errno.h>
#include <string.h>

#include "cond/native_bytes.h"
#include "cond/native_labels.h"

/* an offset in the frame, from rsp */
#define SAVED_AT(reg) (8 * (reg)) /* rax, rcx, rdx */
#define FLAGS_AT 24
#define SLOT_AT(height) (32 + 8 * (int32_t)(height))
#define RED_ZONE_BYTES 128
#define PAGE_BITS 12
#define VALUE_AND_JUMP_BYTES 10
#define FRAME_BYTES (RED_ZONE_BYTES + 32 + 8 * (COND_HEIGHT_MAX + 1) + 8)

/* Codes of conditions, as in jcc; the lowest bit inverts. */
enum {
	CC_BELOW = 2,
	CC_EQUAL = 4,
	CC_NOT_EQUAL = 5,
	CC_LESS = 12
};

enum value_kind {
	VALUE_IMM,
	VALUE_REG,   /* of the program, untouched */
	VALUE_SAVED, /* of the program, in the frame */
	VALUE_SLOT,  /* in the frame, by its height */
	VALUE_ACC,   /* rax; one at most */
	VALUE_TEST,  /* the flags; the top alone, and only until the next step */
};

struct value {
	enum value_kind kind;
	uint8_t reg;
	uint8_t test; /* VALUE_TEST: true if this condition code is */
	uint64_t imm;
};

struct fix {
	uint32_t at; /* of the distance */
	uint32_t way;
};

struct native {
	struct native_code *out;
	const struct condition *c;
	const struct native_place *place;
	const char *why;
	int err;
	int has_frame;
	int needs_frame;
	int has_decided; /* a conditional jump was written */
	uint32_t height;
	uint32_t fix_count;
	struct value stack[COND_HEIGHT_MAX + 2];
	struct fix fixes[COND_STEPS_MAX * 2 + 8];
	uint32_t way_at[WAYS];
	uint8_t is_label[COND_STEPS_MAX + 1]; /* 1: jumped to; 2: with the top in rax */
};

static const uint8_t machine_of_dwarf[16] = { 0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15 };

static void give_up(struct native *n, int err, const char *why)
{
	if (n->err)
		return;
	n->err = err;
	n->why = why;
}

static void jump_to(struct native *n, uint32_t way)
{
	n->fixes[n->fix_count++] = (struct fix){ n->out->length, way };
	native_word(n->out, 0);
}

static void jump(struct native *n, uint32_t way)
{
	native_byte(n->out, 0xe9);
	jump_to(n, way);
}

static void jump_if(struct native *n, uint8_t test, uint32_t way)
{
	n->has_decided = 1;
	native_byte(n->out, 0x0f);
	native_byte(n->out, 0x80 | test);
	jump_to(n, way);
}

/* What comes here goes to the interpreter, for a value that only it can get. */
static void ask(struct native *n, const char *why)
{
	if (n->has_decided)
		jump(n, WAY_TRUE);
	else
		give_up(n, -EOPNOTSUPP, why);
}

/* ---- values ---- */

static void need_frame(struct native *n)
{
	n->needs_frame = 1;
}

/* rax is about to be used for another one. Leaves the flags alone. */
static void spill(struct native *n)
{
	for (uint32_t i = 0; i < n->height; i++)
		if (n->stack[i].kind == VALUE_ACC) {
			native_op_frame(n->out, 0x89, RAX, SLOT_AT(i));
			n->stack[i].kind = VALUE_SLOT;
		}
}

/* Leaves the flags alone. */
static void native_load(struct native *n, uint32_t reg, const struct value *value, uint32_t height)
{
	need_frame(n);
	switch (value->kind) {
	case VALUE_IMM:
		native_move_imm(n->out, reg, value->imm);
		break;
	case VALUE_REG:
		native_op_reg(n->out, OP_MOV, reg, value->reg);
		break;
	case VALUE_SAVED:
		native_op_frame(n->out, OP_MOV, reg, SAVED_AT(value->reg));
		break;
	case VALUE_SLOT:
		native_op_frame(n->out, OP_MOV, reg, SLOT_AT(height));
		break;
	default:
		if (reg != RAX)
			native_op_reg(n->out, OP_MOV, reg, RAX);
	}
}

static struct value *top(struct native *n)
{
	return &n->stack[n->height - 1];
}

static void settle_test(struct native *n)
{
	if (!n->height || top(n)->kind != VALUE_TEST)
		return;
	need_frame(n);
	spill(n);
	native_byte(n->out, 0x0f); /* setcc al; movzx eax, al */
	native_byte(n->out, 0x90 | top(n)->test);
	native_byte(n->out, 0xc0);
	native_byte(n->out, 0x0f);
	native_byte(n->out, 0xb6);
	native_byte(n->out, 0xc0);
	top(n)->kind = VALUE_ACC;
}

/* The top is in rax. */
static void top_to_acc(struct native *n)
{
	struct value value = *top(n);

	if (value.kind == VALUE_TEST) {
		settle_test(n);
	} else if (value.kind != VALUE_ACC) {
		spill(n);
		native_load(n, RAX, &value, n->height - 1);
		top(n)->kind = VALUE_ACC;
	}
}

/* The top is a constant or in the flags. */
static void top_to_test(struct native *n)
{
	struct value *value = top(n);

	if (value->kind == VALUE_IMM || value->kind == VALUE_TEST)
		return;
	if (value->kind == VALUE_REG) {
		native_op_reg(n->out, 0x85, value->reg, value->reg);
	} else {
		top_to_acc(n);
		native_op_reg(n->out, 0x85, RAX, RAX);
	}
	*value = (struct value){ .kind = VALUE_TEST, .test = CC_NOT_EQUAL };
}

static struct value *native_push(struct native *n, enum value_kind kind)
{
	struct value *value = &n->stack[n->height++];

	*value = (struct value){ .kind = kind };
	return value;
}

/* rax := something that the caller emits. */
static void push_acc(struct native *n)
{
	need_frame(n);
	spill(n);
	native_push(n, VALUE_ACC);
}

/* ---- steps ---- */

static void push_reg(struct native *n, uint32_t dwarf)
{
	if (dwarf >= COND_VECTOR_FIRST) {
		push_acc(n);
		native_vector_acc(n->out, dwarf - COND_VECTOR_FIRST);
		return;
	}
	if (dwarf >= 16) {
		native_push(n, VALUE_IMM)->imm = n->place->address;
		return;
	}
	uint8_t reg = machine_of_dwarf[dwarf];

	if (reg == RSP) {
		push_acc(n); /* lea rax, [rsp + FRAME_BYTES] */
		native_op_frame(n->out, 0x8d, RAX, n->has_frame ? FRAME_BYTES : 0);
		return;
	}
	native_push(n, reg <= RDX && n->has_frame ? VALUE_SAVED : VALUE_REG)->reg = reg;
}

static void push_tid(struct native *n)
{
	push_acc(n);
	native_byte(n->out, 0x64); /* mov eax, fs:[tid_at] */
	native_byte(n->out, 0x8b);
	native_byte(n->out, 0x04);
	native_byte(n->out, 0x25);
	native_word(n->out, (uint32_t)n->place->tid_at);
	native_byte(n->out, 0x85); /* test eax, eax */
	native_byte(n->out, 0xc0);
	jump_if(n, CC_EQUAL, WAY_TRUE);
}

static void push_a_term(struct native *n, uint32_t term)
{
	switch (term) {
	case COND_ADDR:
	case COND_IP:
		native_push(n, VALUE_IMM)->imm = n->place->address;
		break;
	case COND_PID:
		native_push(n, VALUE_IMM)->imm = n->place->pid;
		break;
	case COND_CALLER:
		push_acc(n);
		native_op_frame(n->out, OP_MOV, RAX, n->has_frame ? FRAME_BYTES : 0);
		break;
	case COND_TID:
		push_tid(n);
		break;
	case COND_HITS:
	case COND_HITS_IN_THREAD:
		/* All attempts count, so all have to reach the interpreter. */
		give_up(n, -EOPNOTSUPP, "it counts hits");
		break;
	default:
		ask(n, "it asks for the CPU");
		native_push(n, VALUE_IMM);
	}
}

/* lea rcx, [rax + more]; xor rcx, rsp; shr rcx, 12; jnz to the interpreter */
static void check_page(struct native *n, uint32_t more)
{
	native_byte(n->out, 0x48);
	native_byte(n->out, 0x8d);
	native_byte(n->out, 0x48);
	native_byte(n->out, more);
	native_op_reg(n->out, OP_XOR, RCX, RSP);
	native_op_unary(n->out, 0xc1, 5, RCX);
	native_byte(n->out, PAGE_BITS);
	jump_if(n, CC_NOT_EQUAL, WAY_TRUE);
}

/*
 * A load must not fault, and no handler of faults is the library's. What lies in the page that the
 * frame was written to a moment ago can be read; all the rest is for the interpreter.
 */
static void native_read(struct native *n, const struct cond_step *step)
{
	top_to_acc(n);
	need_frame(n);
	check_page(n, 0);
	if (step->size > 1)
		check_page(n, step->size - 1u);
	native_load_acc(n->out, step->size, step->is_signed);
}

/* The two on top: the first in rax, the second in rcx unless an operand of the instruction. */
static struct value take_two(struct native *n)
{
	struct value second = n->stack[--n->height];

	if (second.kind == VALUE_ACC || second.kind == VALUE_SLOT || second.kind == VALUE_SAVED ||
	    (second.kind == VALUE_IMM && !native_fits_32(second.imm))) {
		native_load(n, RCX, &second, n->height);
		second = (struct value){ .kind = VALUE_REG, .reg = RCX };
	}
	top_to_acc(n);
	return second;
}

static void operate(struct native *n, uint32_t opcode, uint32_t reg, const struct value *second)
{
	if (second->kind == VALUE_IMM)
		native_op_imm(n->out, opcode, reg, second->imm);
	else
		native_op_reg(n->out, opcode, reg, second->reg);
}

static void multiply(struct native *n)
{
	struct value second = take_two(n);

	native_load(n, RCX, &second, 0);
	native_byte(n->out, 0x48); /* imul rax, rcx */
	native_byte(n->out, 0x0f);
	native_byte(n->out, 0xaf);
	native_byte(n->out, 0xc1);
}

/* By 0, and by -1, which overflows: the interpreter knows. */
static void native_divide(struct native *n, const struct cond_step *step)
{
	struct value second = take_two(n);

	native_load(n, RCX, &second, 0);
	native_op_reg(n->out, 0x85, RCX, RCX);
	jump_if(n, CC_EQUAL, WAY_TRUE);
	if (step->is_signed) {
		native_op_imm(n->out, OP_CMP, RCX, UINT64_MAX);
		jump_if(n, CC_EQUAL, WAY_TRUE);
		native_byte(n->out, 0x48); /* cqo */
		native_byte(n->out, 0x99);
	} else {
		native_move_imm(n->out, RDX, 0);
	}
	native_op_unary(n->out, 0xf7, step->is_signed ? 7 : 6, RCX);
	if (step->op == COND_MOD)
		native_op_reg(n->out, OP_MOV, RAX, RDX);
}

/* 4 shl, 5 shr, 7 sar; by cl, whose low six bits count, as in the interpreter. */
static void shift(struct native *n, const struct cond_step *step)
{
	struct value second = take_two(n);

	native_load(n, RCX, &second, 0);
	native_op_unary(n->out, 0xd3, step->op == COND_SHL ? 4 : step->is_signed ? 7 : 5, RAX);
}

/* In the order of enum cond_op from COND_EQ. */
static uint8_t test_of(const struct cond_step *step)
{
	static const uint8_t without_sign[] = { 4, 5, 2, 6, 7, 3 };
	static const uint8_t with_sign[] = { 4, 5, 12, 14, 15, 13 };
	uint32_t at = step->op - COND_EQ;

	return step->is_signed ? with_sign[at] : without_sign[at];
}

/* Without rax where a register of the program is compared with what an instruction can name. */
static void native_compare(struct native *n, const struct cond_step *step)
{
	struct value *first = &n->stack[n->height - 2];
	struct value second = *top(n);
	int is_direct = first->kind == VALUE_REG &&
			((second.kind == VALUE_IMM && native_fits_32(second.imm)) ||
			 second.kind == VALUE_REG || second.kind == VALUE_ACC);

	if (is_direct) {
		n->height--;
		if (second.kind == VALUE_ACC)
			second = (struct value){ .kind = VALUE_REG, .reg = RAX };
		operate(n, OP_CMP, first->reg, &second);
	} else {
		second = take_two(n);
		operate(n, OP_CMP, RAX, &second);
	}
	*top(n) = (struct value){ .kind = VALUE_TEST, .test = test_of(step) };
}

static void native_binary(struct native *n, const struct cond_step *step)
{
	static const uint8_t opcodes[COND_OP_COUNT] = {
		[COND_ADD] = OP_ADD, [COND_SUB] = OP_SUB, [COND_AND] = OP_AND,
		[COND_OR] = OP_OR,   [COND_XOR] = OP_XOR,
	};

	if (step->op == COND_MUL) {
		multiply(n);
	} else if (step->op == COND_DIV || step->op == COND_MOD) {
		native_divide(n, step);
	} else if (step->op == COND_SHL || step->op == COND_SHR) {
		shift(n, step);
	} else if (step->op >= COND_EQ) {
		native_compare(n, step);
	} else {
		struct value second = take_two(n);
		operate(n, opcodes[step->op], RAX, &second);
	}
}

static void extend(struct native *n, const struct cond_step *step)
{
	uint32_t unused = 64u - 8u * step->size;

	top_to_acc(n);
	if (!unused)
		return;
	native_op_unary(n->out, 0xc1, 4, RAX);
	native_byte(n->out, unused);
	native_op_unary(n->out, 0xc1, step->is_signed ? 7 : 5, RAX);
	native_byte(n->out, unused);
}

/* imm <= value < imm2: one comparison of the distance from imm. */
static void is_in(struct native *n, const struct cond_step *step)
{
	struct value first = { .kind = VALUE_IMM, .imm = step->imm };
	struct value bytes = { .kind = VALUE_IMM, .imm = step->imm2 - step->imm };

	if (step->imm2 <= step->imm) {
		*top(n) = (struct value){ .kind = VALUE_IMM, .imm = 0 };
		return;
	}
	top_to_acc(n);
	native_load(n, RCX, &first, 0);
	native_op_reg(n->out, OP_SUB, RAX, RCX);
	native_load(n, RCX, &bytes, 0);
	native_op_reg(n->out, OP_CMP, RAX, RCX);
	*top(n) = (struct value){ .kind = VALUE_TEST, .test = CC_BELOW };
}

static void truth(struct native *n, int is_inverted)
{
	top_to_test(n);
	if (top(n)->kind == VALUE_IMM)
		top(n)->imm = (top(n)->imm != 0) ^ (uint32_t)is_inverted;
	else
		top(n)->test ^= (uint8_t)is_inverted;
}

static void native_unary(struct native *n, const struct cond_step *step)
{
	switch (step->op) {
	case COND_NOT:
		truth(n, 1);
		break;
	case COND_BOOL:
		truth(n, 0);
		break;
	case COND_NEG:
		top_to_acc(n);
		native_op_unary(n->out, 0xf7, 3, RAX);
		break;
	case COND_INV:
		top_to_acc(n);
		native_op_unary(n->out, 0xf7, 2, RAX);
		break;
	case COND_IN:
		is_in(n, step);
		break;
	default:
		extend(n, step);
	}
}

/* ---- jumps ---- */

/* To a step that wants the value in rax. */
static void jump_with(struct native *n, uint32_t value, uint32_t to)
{
	if (to < WAY_TRUE) {
		need_frame(n);
		native_move_imm(n->out, RAX, value);
	}
	jump(n, to);
}

/* && and ||: on the way that is taken the truth value stays on top. */
static void jump_and_keep(struct native *n, const struct cond_step *step)
{
	uint32_t wanted = step->op == COND_JUMP_IF_1_KEEP;
	uint32_t value = wanted;
	uint32_t to = native_follow(n->c, step->target, &value);

	top_to_test(n);
	struct value before = *top(n);
	uint8_t test = before.test ^ (uint8_t)!wanted;

	*top(n) = (struct value){ .kind = VALUE_IMM, .imm = !wanted };
	spill(n);
	if (before.kind == VALUE_IMM) {
		if ((before.imm != 0) == wanted)
			jump_with(n, value, to);
	} else if (to >= WAY_TRUE) {
		jump_if(n, test, to);
	} else {
		native_byte(n->out, 0x70 | (test ^ 1));
		native_byte(n->out, VALUE_AND_JUMP_BYTES);
		jump_with(n, value, to);
	}
}

static void jump_if_0(struct native *n, const struct cond_step *step)
{
	top_to_test(n);
	struct value test = n->stack[--n->height];

	spill(n);
	if (test.kind == VALUE_IMM && !test.imm)
		jump(n, step->target);
	else if (test.kind != VALUE_IMM)
		jump_if(n, test.test ^ 1, step->target);
}

static void leave(struct native *n)
{
	top_to_test(n);
	if (top(n)->kind == VALUE_IMM)
		jump(n, top(n)->imm ? WAY_TRUE : WAY_FALSE);
	else
		jump_if(n, top(n)->test ^ 1, WAY_FALSE);
}

static void step_jump(struct native *n, const struct cond_step *step)
{
	switch (step->op) {
	case COND_JUMP_IF_0:
		jump_if_0(n, step);
		break;
	case COND_JUMP:
		top_to_acc(n);
		jump(n, step->target);
		break;
	default:
		jump_and_keep(n, step);
	}
}

static int keeps_test(uint8_t op)
{
	return op == COND_BOOL || op == COND_NOT || op == COND_JUMP_IF_0 ||
	       op == COND_JUMP_IF_0_KEEP || op == COND_JUMP_IF_1_KEEP;
}

static void push_unknown(struct native *n, const struct cond_step *step)
{
	if (step->op == COND_STRING || cond_is_of_floats(step->op))
		n->height -= step->op >= COND_FADD && step->op <= COND_FDIV ? 2 : 1;
	ask(n, "it has floats, or reads a string, a thread's name or another event's hits");
	native_push(n, VALUE_IMM);
}

static void step_emit(struct native *n, const struct cond_step *step)
{
	if (!keeps_test(step->op))
		settle_test(n);
	if (step->op == COND_PUSH)
		native_push(n, VALUE_IMM)->imm = step->imm;
	else if (step->op == COND_TERM)
		push_a_term(n, step->arg);
	else if (step->op == COND_REG)
		push_reg(n, step->arg);
	else if (step->op == COND_POP)
		n->height--;
	else if (step->op == COND_LOAD)
		native_read(n, step);
	else if (step->op == COND_STRING || step->op == COND_COUNT || step->op == COND_THREAD ||
		 cond_is_of_floats(step->op))
		push_unknown(n, step);
	else if (step->op >= COND_JUMP_IF_0)
		step_jump(n, step);
	else if (step->op <= COND_BOOL || step->op == COND_IN)
		native_unary(n, step);
	else
		native_binary(n, step);
}

/* A label that is also fallen into: the same values in the same locations on both ways. */
static void meet_label(struct native *n, uint32_t at, uint32_t height)
{
	int has_top = n->is_label[at] & 2;

	if (!n->is_label[at])
		return;
	/* Behind a jump: what the way here left on the stack. */
	if (height < n->height)
		n->height = height;
	if (has_top) {
		if (n->height == height)
			top_to_acc(n);
		else
			native_push(n, VALUE_ACC);
	}
	n->way_at[at] = n->out->length;
}

/* ---- the whole ---- */

static void enter_frame(struct native *n)
{
	if (!n->has_frame)
		return;
	native_op_frame(n->out, 0x8d, RSP, -FRAME_BYTES); /* lea: no flag changes */
	for (uint32_t reg = RAX; reg <= RDX; reg++)
		native_op_frame(n->out, 0x89, reg, SAVED_AT((int32_t)reg));
	if (n->place->flags_are_live)
		native_save_flags(n->out, FLAGS_AT);
}

static void leave_frame(struct native *n)
{
	if (!n->has_frame)
		return;
	if (n->place->flags_are_live)
		native_restore_flags(n->out, FLAGS_AT);
	for (uint32_t reg = RAX; reg <= RDX; reg++)
		native_op_frame(n->out, OP_MOV, reg, SAVED_AT((int32_t)reg));
	native_op_frame(n->out, 0x8d, RSP, FRAME_BYTES);
}

static void generate(struct native *n)
{
	enter_frame(n);
	for (uint32_t i = 0; i < n->c->count && !n->err; i++) {
		meet_label(n, i, n->c->steps[i].height);
		step_emit(n, &n->c->steps[i]);
	}
	if (n->err)
		return;
	meet_label(n, n->c->count, 1);
	leave(n);
	n->way_at[WAY_TRUE] = n->out->length;
	leave_frame(n);
	native_byte(n->out, 0xe9);
	n->out->true_at = n->out->length;
	native_word(n->out, 0);
	n->way_at[WAY_FALSE] = n->out->length;
	leave_frame(n);
	for (uint32_t i = 0; i < n->fix_count && !n->out->is_full; i++)
		native_set_distance(n->out, n->fixes[i].at, n->way_at[n->fixes[i].way]);
}

int cond_native(const struct condition *c, const struct native_place *place,
		struct native_code *out, const char **why)
{
	struct native n;

	for (int has_frame = place->flags_are_live != 0; has_frame < 2; has_frame++) {
		memset(&n, 0, sizeof(n));
		out->length = 0;
		out->is_full = 0;
		n.out = out;
		n.c = c;
		n.place = place;
		n.has_frame = has_frame;
		native_find_labels(c, n.is_label);
		generate(&n);
		if (out->is_full)
			give_up(&n, -E2BIG, "the condition is too long for machine code");
		if (n.err || has_frame || !n.needs_frame)
			break;
	}
	*why = n.why;
	return n.err;
}
