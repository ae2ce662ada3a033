/* SPDX-License-Identifier: MIT */
/*
 * eval.c - the interpreter. Safe in a handler: no allocation, no recursion, a bounded loop.
 *
 * It defines what a condition means; emit.c must agree bit for bit
 * (tests/unit/test_condition_language.c).
 */
#include "base/general_regs.h"

#include <errno.h>
#include <string.h>

#include "cond/ir.h"
#include "cond/order.h"
#include "cond/soft.h"

static uint64_t eval_extend(uint64_t value, uint32_t size, int is_signed)
{
	uint32_t unused = 64 - 8 * size;

	if (!unused)
		return value;
	value <<= unused;
	return is_signed ? (uint64_t)((int64_t)value >> unused) : value >> unused;
}

static int divide(const struct cond_step *step, uint64_t a, uint64_t b, uint64_t *out)
{
	int is_mod = step->op == COND_MOD;

	if (!b)
		return -EFAULT;
	if (!step->is_signed) {
		*out = is_mod ? a % b : a / b;
	} else if (b == UINT64_MAX) {
		/* By -1: the smallest number has no opposite; it stays, as when it wraps. */
		*out = is_mod ? 0 : 0 - a;
	} else {
		*out = (uint64_t)(is_mod ? (int64_t)a % (int64_t)b : (int64_t)a / (int64_t)b);
	}
	return 0;
}

static int compare(const struct cond_step *step, uint64_t a, uint64_t b)
{
	/* Flipping the sign bit turns signed order into unsigned order. */
	uint64_t flip = step->is_signed ? 1ull << 63 : 0;

	a ^= flip;
	b ^= flip;
	switch (step->op) {
	case COND_LT:
		return a < b;
	case COND_LE:
		return a <= b;
	case COND_GT:
		return a > b;
	default:
		return a >= b;
	}
}

static uint64_t arithmetic(const struct cond_step *step, uint64_t a, uint64_t b)
{
	switch (step->op) {
	case COND_FADD:
		return soft_add(a, b);
	case COND_FSUB:
		return soft_add(a, b ^ ORDER_SIGN);
	case COND_FMUL:
		return soft_multiply(a, b);
	default:
		return soft_divide(a, b);
	}
}

/* The value of one step with two operands; -EFAULT for a division by 0. */
static int binary(const struct cond_step *step, uint64_t a, uint64_t b, uint64_t *out)
{
	if (step->op < COND_ADD) {
		*out = arithmetic(step, a, b);
		return 0;
	}
	switch (step->op) {
	case COND_ADD:
		*out = a + b;
		return 0;
	case COND_SUB:
		*out = a - b;
		return 0;
	case COND_MUL:
		*out = a * b;
		return 0;
	case COND_DIV:
	case COND_MOD:
		return divide(step, a, b, out);
	case COND_AND:
		*out = a & b;
		return 0;
	case COND_OR:
		*out = a | b;
		return 0;
	case COND_XOR:
		*out = a ^ b;
		return 0;
	case COND_SHL:
		*out = a << (b & 63);
		return 0;
	case COND_SHR:
		*out = step->is_signed ? (uint64_t)((int64_t)a >> (b & 63)) : a >> (b & 63);
		return 0;
	default:
		*out = (uint64_t)compare(step, a, b);
		return 0;
	}
}

static uint64_t unary(const struct cond_step *step, uint64_t a)
{
	switch (step->op) {
	case COND_NEG:
		return 0 - a;
	case COND_INV:
		return ~a;
	case COND_NOT:
		return !a;
	case COND_BOOL:
		return a != 0;
	case COND_ORDER:
		return order_of(step->size == 4 ? order_widen((uint32_t)a) : a, step->imm);
	case COND_WIDEN:
		return order_widen((uint32_t)a);
	case COND_ROUND:
		return soft_round(a);
	case COND_TO_FLOAT:
		return step->size == 4 ? soft_from_as_float(a, step->is_signed) :
					 soft_from(a, step->is_signed);
	case COND_IN:
		return a >= step->imm && a < step->imm2;
	default:
		return eval_extend(a, step->size, step->is_signed);
	}
}

static int load(const struct cond_step *step, const struct cond_env *env, uint64_t *top)
{
	uint64_t value = 0;
	int err = env->read(env, *top, &value, step->size);

	if (!err)
		*top = eval_extend(value, step->size, step->is_signed);
	return err;
}

/* memcmp() of libc would use vector registers: see general_regs.h. */
static int is_same(const char *a, const char *b, uint32_t n)
{
	while (n && *a == *b) {
		a++;
		b++;
		n--;
	}
	return !n;
}

static int string_begins(const struct condition *c, const struct cond_step *step,
			 const struct cond_env *env, uint64_t *top)
{
	char there[COND_STRING_MAX];
	int err = env->read(env, *top, there, step->size);

	if (!err)
		*top = (uint64_t)is_same(there, c->strings + step->arg, step->size);
	return err;
}

static uint64_t is_thread(const struct condition *c, const struct cond_step *step,
			  const struct cond_env *env)
{
	char name[COND_THREAD_NAME];

	env->thread(env, name);
	return (uint64_t)is_same(name, c->strings + step->arg, step->size);
}

/* Steps that neither put one number on the stack, nor take two for one, nor jump. */
static int change_top(const struct condition *c, const struct cond_step *step,
		      const struct cond_env *env, uint64_t *top)
{
	switch (step->op) {
	case COND_LOAD:
		return load(step, env, top);
	case COND_STRING:
		return string_begins(c, step, env, top);
	case COND_TO_WHOLE:
		return soft_whole(*top, step->is_signed, top) ? 0 : -EFAULT;
	case COND_POP:
		return 0;
	default:
		top[-step->arg] = unary(step, top[-step->arg]);
		return 0;
	}
}

/* The number of the next step, or -EFAULT. One switch for all: a step costs less than two would. */
static inline int do_step(const struct condition *c, const struct cond_env *env, int i,
			  uint64_t *stack)
{
	const struct cond_step *step = &c->steps[i];
	uint64_t *slot = stack + step->height;
	uint64_t *top = slot - 1;
	const int next = i + 1;
	int err = 0;

	switch (step->op) {
	case COND_PUSH:
		*slot = step->imm;
		return next;
	case COND_TERM:
		err = env->term(env, (enum cond_term)step->arg, slot);
		break;
	case COND_REG:
		err = env->reg(env, step->arg, slot);
		break;
	case COND_COUNT:
		err = env->count(env, step->arg, slot);
		break;
	case COND_THREAD:
		*slot = is_thread(c, step, env);
		return next;
	case COND_EQ:
		top[-1] = top[-1] == *top;
		return next;
	case COND_NE:
		top[-1] = top[-1] != *top;
		return next;
	case COND_FADD ... COND_SHR:
	case COND_LT ... COND_GE:
		err = binary(step, top[-1], *top, top - 1);
		break;
	case COND_JUMP:
		return step->target;
	case COND_JUMP_IF_0:
	case COND_JUMP_IF_0_KEEP:
		return *top ? next : step->target;
	case COND_JUMP_IF_1_KEEP:
		return *top ? step->target : next;
	default:
		err = change_top(c, step, env, top);
	}
	return err ? -EFAULT : next;
}

int cond_eval(const struct condition *c, const struct cond_env *env)
{
	uint64_t stack[COND_HEIGHT_MAX + 1];
	const int count = (int)c->count;

	stack[0] = 0;
	for (int i = 0; i < count;) {
		i = do_step(c, env, i, stack);
		if (i < 0)
			return i;
	}
	return stack[0] != 0;
}
