/* SPDX-License-Identifier: MIT */
/*
 * returns.h - the instructions by which a function is left: its returns, and jumps that lead out of
 * what is known.
 *
 * Only what control flow reaches from the function's first instruction is taken for code, since a
 * breakpoint in data would change it. Where flow cannot be followed exactly, nothing is answered.
 */
#ifndef CODE_REACH_RETURNS_H
#define CODE_REACH_RETURNS_H

#include <stddef.h>
#include <stdint.h>

#include "code/insn/insn.h"
#include "code/reach/back.h"

/* The code that one entry of the unwind table is about. */
struct returns_range {
	uint64_t start;
	uint64_t end;
	uint64_t handlers; /* table of its landing pads for exceptions; 0: none */
};

/* A program as its file has it. Addresses are those in the file's headers. */
struct returns_code {
	/* Copies up to n bytes; how many, 0: there is nothing. */
	size_t (*copy)(void *arg, uint64_t address, void *to, size_t n);
	/* 0, or -ENOENT: no entry of the unwind table has the address; or -errno. */
	int (*range)(void *arg, uint64_t address, struct returns_range *out);
	/*
	 * The word there in the memory of the process, and as an address of the file. 0 or -errno.
	 */
	int (*word)(void *arg, uint64_t address, uint64_t *out);
	/* Does the call at an address come back? */
	enum back_answer (*comes_back)(void *arg, uint64_t address, const struct insn *insn);
	/* 1: the instruction loads the address of a function that never returns. */
	int (*loads_last)(void *arg, uint64_t address, const uint8_t *code,
			  const struct insn *insn);
	void *arg;
	int has_fixed_addresses; /* words in the file are addresses as they are */
};

struct returns_exit {
	uint64_t address;
	int is_jump; /* out of what is known: whether the function returns then is not seen */
};

struct returns_found {
	struct returns_exit *exit;
	size_t count;
	size_t capacity;
	uint64_t stopped_at; /* of an error: the instruction that was not understood */
};

/*
 * returns_find - where the function that begins at start is left.
 *
 * A jump to another function of the file is followed: its returns are the function's own. *out is
 * to be given to returns_free(), also after an error.
 *
 * Errors: -ENOENT no entry of the unwind table; -EILSEQ no instruction, or two that overlap;
 * -EOPNOTSUPP a jump or call whose targets are not known; -ENOLINK a call that may never come back,
 * and what follows it is not reached otherwise; -E2BIG; -ENOMEM.
 */
int returns_find(const struct returns_code *code, uint64_t start, struct returns_found *out);
void returns_free(struct returns_found *found);

/*
 * returns_is_sole_way - does control reach `behind` only from the instruction before it, at
 * `before`?
 *
 * 1: no jump of the function that begins at start leads there, and no exception. 0: another way
 * does, or the instructions are not reached. Code that only a change of the code leads to does not
 * count, as the block of a static branch that is off. Errors: as returns_find().
 */
int returns_is_sole_way(const struct returns_code *code, uint64_t start, uint64_t before,
			uint64_t behind);

#endif
