/* SPDX-License-Identifier: MIT */
/*
 * branch_code_x86_64.h - see branch_code.h.
 *
 * Only the first byte differs: test $imm32, %eax, and jmp rel32, whose distance are the same four
 * bytes. Where the processor does not promise that a core fetches the store of one byte whole,
 * changed pages replace the old ones.
 */
#ifndef CODE_BRANCH_BRANCH_CODE_X86_64_H
#define CODE_BRANCH_BRANCH_CODE_X86_64_H

#include <stdint.h>
#include <string.h>

#include "code/poke/poke.h"

#define BRANCH_BYTES 5u
#define BRANCH_CHANGED_BYTES 1u
#define BRANCH_TEST 0xa9
#define BRANCH_JUMP 0xe9

/* As the macros of <trapline/branch.h> write it: distances from the members themselves. */
struct branch_record {
	int32_t site;
	int32_t reference; /* of a pointer to the key; bit 0: inverted */
};

static inline int branch_text_is_jump(const uint8_t *text)
{
	return text[0] == BRANCH_JUMP;
}

static inline uint64_t branch_target(const struct branch_record *record, const uint8_t *text)
{
	int32_t distance;

	memcpy(&distance, text + 1, sizeof(distance));
	return (uintptr_t)text + BRANCH_BYTES + (uint64_t)(int64_t)distance;
}

/* The bytes that change. 0: the target is out of reach. */
static inline int branch_put(uint8_t *out, uint64_t address, uint64_t target, int is_jump)
{
	out[0] = is_jump ? BRANCH_JUMP : BRANCH_TEST;
	return 1;
}

static inline int branch_needs_exchange(void)
{
	return !poke_stores_are_promised();
}

#endif
