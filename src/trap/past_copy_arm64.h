/* SPDX-License-Identifier: MIT */
/* past_copy_arm64.h - copies of instructions that the handler calls. */
#ifndef TRAP_PAST_COPY_ARM64_H
#define TRAP_PAST_COPY_ARM64_H

#include "code/insn/insn.h"
#include <stdint.h>

/*
 * The words of a context that a copy works on, as the kernel lays them out: x0 to x30, sp. The pc
 * is free while the copy runs: an operand relative to the pc is found there, and flags come back
 * there.
 */
enum {
	PAST_SP = 31,
	PAST_SPARE = 32,
	PAST_PSTATE = 33,
};

/*
 * For data the copies are in event_steps, by which programs in the kernel know them. Those of
 * breakpoints are elsewhere, since what they hit was not hit before.
 */
int past_copies_map(void);
/*
 * Callable: void copy(uint64_t *words). NULL: no room, or an operand that cannot be moved.
 * AS-Safe.
 */
const void *past_copy(uint32_t word, const struct insn *insn, int is_breakpoint);

#endif
