/* SPDX-License-Identifier: MIT */
/*
 * reach.h - which bytes of a function are instructions that a thread can reach.
 *
 * A function's bytes can contain constants, and an int3 in one of those changes what the program
 * computes. So nothing is taken for an instruction because it can be decoded: only what control
 * flow leads to from a location where an instruction begins for certain. These are the beginning of
 * the function, other roots that the caller knows, the targets of direct jumps, and the entries of
 * jump tables whose length is known. What is read as data, and instructions that overlap, are not
 * such locations.
 *
 * A call comes back unless its function is known never to return. What follows a call of an unknown
 * function is code only as far as it is plausible.
 *
 * Not for handlers. Memory: the caller's.
 */
#ifndef CODE_REACH_REACH_H
#define CODE_REACH_REACH_H

#include <stdint.h>

#include "code/insn/insn.h"
#include "code/reach/jump_table.h"

#define REACH_BYTES_MAX (256u << 10) /* of a function */
#define REACH_STACK 1024u
#define REACH_RUN 1024u
#define REACH_JUMPS 64u
#define REACH_PAST 24u /* instructions before an indirect jump */

/* What the caller knows; arg is its own. */
struct reach_ops {
	void *arg;
	/* 0: what the call at pc calls never returns. */
	int (*returns)(void *arg, uint64_t pc, const struct insn *insn);
	/* Copy constants: 1, or 0 if it is not memory that stays as it is. */
	int (*read)(void *arg, uint64_t address, void *to, uint64_t bytes);
	/* Is it in code of the same object? */
	int (*is_text)(void *arg, uint64_t address);
	/* Each instruction that was decoded, perhaps more than are reached. */
	void (*on_insn)(void *arg, uint64_t pc, const uint8_t *code, const struct insn *insn);
	/* A jump leads to another function, or to a part of this one that lies elsewhere. */
	void (*on_leave)(void *arg, uint64_t target);
};

/* The state of a straight run that is being decoded. */
struct reach_step {
	uint32_t at;
	uint8_t length;
	uint8_t kind;
	uint16_t flags;
	int64_t target;
};

struct reach {
	const uint8_t *code; /* of the function */
	uint64_t start;
	uint64_t end;
	const struct reach_ops *ops;
	uint32_t stack_count;
	uint32_t is_cut; /* the stack was full: what is wanted is looked for again */
	uint32_t jump_count;
	uint32_t stack[REACH_STACK];
	uint32_t jumps[REACH_JUMPS]; /* indirect ones to be inspected */
	struct reach_step steps[REACH_RUN];
	struct jump_past past[REACH_PAST];
	/* A bit for each byte of the function: */
	uint8_t first[REACH_BYTES_MAX / 8];  /* an instruction that is reached begins */
	uint8_t rest[REACH_BYTES_MAX / 8];   /* another byte of one */
	uint8_t wanted[REACH_BYTES_MAX / 8]; /* control flow goes there */
	uint8_t data[REACH_BYTES_MAX / 8];   /* read as data */
};

/* code: the bytes of the function. -E2BIG: too long. */
int reach_begin(struct reach *r, const uint8_t *code, uint64_t start, uint64_t end,
		const struct reach_ops *ops);
/* An instruction begins there for certain. Elsewhere than in the function: nothing happens. */
void reach_root(struct reach *r, uint64_t address);
/* A jump leads there. */
void reach_leave(struct reach *r, uint64_t target);
/* What is there is read. */
void reach_is_data(struct reach *r, uint64_t address, uint64_t bytes);
/* Follow all control flow. */
void reach_run(struct reach *r);
/* 1: an instruction that is reached begins there, and none overlaps it, and nothing reads it. */
int reach_has(const struct reach *r, uint64_t address, uint32_t length);
/* 1: it is part of an instruction that is reached. */
int reach_covers(const struct reach *r, uint64_t address);

static inline int reach_bit(const uint8_t *bits, uint64_t at)
{
	return bits[at / 8] >> at % 8 & 1;
}

#endif
