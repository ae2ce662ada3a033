/* SPDX-License-Identifier: MIT */
/*
 * ir.h - a condition as steps on a stack of 64-bit numbers.
 *
 * The parser writes them, the interpreter (eval.c) and the eBPF compiler (emit.c) read them. The
 * height of the stack before each step is known when it is written, so neither needs recursion and
 * a stack slot is a location in the program's frame. Jumps only go forward: every condition ends.
 */
#ifndef COND_IR_H
#define COND_IR_H

#include <stdint.h>

#define COND_STEPS_MAX 512
#define COND_HEIGHT_MAX 32
#define COND_TEXT_MAX 4096
#define COND_STRING_MAX 64 /* of a string constant */
#define COND_STRINGS_BYTES 512
#define COND_THREAD_NAME 16
#define COND_EVENTS_MAX 8 /* different count(EVENT) */

/* Behind the general registers: the low 8 bytes of a vector register. */
#if defined(__x86_64__)
#define COND_VECTOR_FIRST 17
#else
#define COND_VECTOR_FIRST 64
#endif

struct trapline_event;

enum cond_op {
	COND_PUSH,  /* imm */
	COND_TERM,  /* arg: enum cond_term */
	COND_REG,   /* arg: DWARF number */
	COND_COUNT, /* arg: index of events */
	COND_LOAD,  /* address -> the size bytes there */
	COND_CAST,  /* to size bytes */
	COND_ORDER, /* a float or double, of size bytes -> its rank; imm: that of a NaN. order.h */
	/* These use the bits of floating-point numbers; arg is how many numbers are above. */
	COND_WIDEN,    /* a float -> a double */
	COND_ROUND,    /* a double -> a float */
	COND_TO_FLOAT, /* a whole number -> a float or double, of size bytes */
	COND_TO_WHOLE, /* a double -> a whole number of 64 bits; fails if that does not have it */
	COND_NEG,
	COND_INV,
	COND_NOT,
	COND_BOOL, /* != 0 */
	COND_FADD, /* of doubles. soft.h */
	COND_FSUB,
	COND_FMUL,
	COND_FDIV,
	COND_ADD,
	COND_SUB,
	COND_MUL,
	COND_DIV,
	COND_MOD,
	COND_AND,
	COND_OR,
	COND_XOR,
	COND_SHL,
	COND_SHR,
	COND_EQ,
	COND_NE,
	COND_LT,
	COND_LE,
	COND_GT,
	COND_GE,
	COND_IN,	     /* value -> imm <= value < imm2 */
	COND_STRING,	     /* pointer -> the bytes there begin with strings[arg], size long */
	COND_THREAD,	     /* -> the first size bytes of the thread's name are strings[arg] */
	COND_JUMP_IF_0,	     /* takes the number: ?: */
	COND_JUMP_IF_0_KEEP, /* && */
	COND_JUMP_IF_1_KEEP, /* || */
	COND_JUMP,
	COND_POP,
	COND_OP_COUNT,
};

enum cond_term {
	COND_NEW,
	COND_OLD,
	COND_CHANGED,
	COND_ADDR,
	COND_IP,
	COND_TID,
	COND_PID,
	COND_CPU,
	COND_HITS,
	COND_HITS_IN_THREAD,
	COND_CALLER,
	COND_TERM_COUNT,
};

struct cond_step {
	uint8_t op;
	uint8_t size;
	uint8_t is_signed; /* of the operands, or of a load or cast */
	uint8_t height;	   /* numbers on the stack before the step */
	uint16_t arg;
	uint16_t target; /* of a jump: index of a later step */
	uint64_t imm;
	uint64_t imm2;
};

struct condition {
	uint32_t count;
	uint32_t terms; /* bit mask of enum cond_term in use */
	uint32_t event_count;
	uint32_t strings_used;
	struct cond_step steps[COND_STEPS_MAX];
	struct trapline_event *events[COND_EVENTS_MAX];
	char strings[COND_STRINGS_BYTES];
};

static inline int cond_uses(const struct condition *c, enum cond_term term)
{
	return (c->terms >> term & 1) != 0;
}

/* A register that has a value beside the general ones, as xmm0. */
static inline int cond_uses_vectors(const struct condition *c)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (c->steps[i].op == COND_REG && c->steps[i].arg >= COND_VECTOR_FIRST)
			return 1;
	return 0;
}

static inline int cond_is_of_floats(uint8_t op)
{
	return (op >= COND_ORDER && op <= COND_TO_WHOLE) || (op >= COND_FADD && op <= COND_FDIV);
}

/* eval.c: what the interpreter asks of where it runs. 0 or -errno: then the condition is false. */
struct cond_env {
	int (*term)(const struct cond_env *env, enum cond_term term, uint64_t *out);
	int (*reg)(const struct cond_env *env, uint32_t number, uint64_t *out);
	int (*count)(const struct cond_env *env, uint32_t event, uint64_t *out); /* its index */
	int (*read)(const struct cond_env *env, uint64_t address, void *buf, uint32_t n);
	void (*thread)(const struct cond_env *env, char *name); /* COND_THREAD_NAME bytes */
	const void *arg;
};

/* 1 true, 0 false, -EFAULT a load or conversion failed or a divisor was 0. AS-Safe. */
int cond_eval(const struct condition *c, const struct cond_env *env);

#endif
