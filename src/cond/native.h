/* SPDX-License-Identifier: MIT */
/*
 * native.h - from the steps of a condition to x86-64 machine code that runs where a probe is.
 *
 * The code is a filter: it may send a thread on that the interpreter then rejects, never the other
 * way round. So it asks the interpreter, by the way out for "true", wherever an answer is hard to
 * get. That is a divisor of 0, a thread that the library has not met, memory that might fault, or a
 * thread's name.
 */
#ifndef COND_NATIVE_H
#define COND_NATIVE_H

#include "cond/ir.h"

#define NATIVE_BYTES_MAX 2048

/* Where the code will run. */
struct native_place {
	uint64_t address; /* of the instruction: addr and ip */
	uint64_t pid;
	int flags_are_live; /* the program may still read them */
	/* of the thread's number, from the thread pointer; 0 there: not known yet */
	int32_t tid_at;
};

/*
 * Runs with the registers of the program and leaves them as they were, flags too where they are
 * live. Falls through at its end when the condition is false. Below the red zone it uses the stack.
 */
struct native_code {
	uint8_t bytes[NATIVE_BYTES_MAX];
	uint32_t length;
	int is_full;	  /* and cut off */
	uint32_t true_at; /* of the distance of the jump that is taken else: from behind it */
};

/*
 * 0; -EOPNOTSUPP: only the interpreter can do it, with *why; -E2BIG: too long. Not AS-Safe for its
 * need of stack.
 */
int cond_native(const struct condition *c, const struct native_place *place,
		struct native_code *out, const char **why);

#endif
