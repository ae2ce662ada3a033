/* SPDX-License-Identifier: MIT */
/*
 * back.h - does a call come back to what follows it?
 *
 * Behind a call that never does, there need not be code. A call comes back if some way through the
 * function leads to a return, and each call on that way comes back. So all objects of the process
 * are asked. A word of a linkage table leads where it points to, and one that is not bound yet to
 * each definition of its name. The names that libc and the runtimes of C++ have for functions that
 * never return are known (last_function.h). What is not found or not understood is unsure.
 *
 * A call through a register, or a word that is not an import, is taken to come back, unless the
 * function loads the address of one that never returns.
 *
 * Not for handlers. The memory is from the kernel (back_open()).
 */
#ifndef CODE_REACH_BACK_H
#define CODE_REACH_BACK_H

#include <stddef.h>
#include <stdint.h>

#include "code/insn/insn.h"
#include "code/reach/linkage.h"

enum back_answer {
	BACK_UNKNOWN,
	BACK_YES,
	BACK_NEVER,
	BACK_UNSURE,
	BACK_ASKED, /* above in the chain of calls */
};

struct back;

/* What the caller knows; arg is its own. Addresses are those of the process. */
struct back_ops {
	void *arg;
	/* Copies code as it is without traps: how many bytes, 0: there is nothing. */
	size_t (*code)(void *arg, uint64_t address, void *to, size_t n);
	/* Copies memory: 1, or 0 if not all of it is there. */
	int (*copy)(void *arg, uint64_t address, void *to, size_t n);
};

/* NULL: there is no memory for it. */
struct back *back_open(const struct back_ops *ops);
void back_close(struct back *b);
/*
 * The objects of the process: to be filled. To be called again, and filled, when some came or went.
 */
struct linkage *back_objects(struct back *b);

/* Does the call at pc come back? BACK_YES, BACK_NEVER or BACK_UNSURE. */
enum back_answer back_call(struct back *b, uint64_t pc, const struct insn *insn);
/* 1: the instruction loads the address of a function that never returns: a call may lead there. */
int back_loads_last(struct back *b, uint64_t pc, const uint8_t *code, const struct insn *insn);

/*
 * The call or jump leads where a register or a word in memory states, whose location the code does
 * not name.
 */
static inline int back_is_by_register(const struct insn *insn)
{
	return (insn->kind == INSN_CALL_INDIRECT || insn->kind == INSN_JUMP_INDIRECT) &&
	       !(insn->flags & INSN_PC_RELATIVE && insn->memory_count);
}

#endif
