/* SPDX-License-Identifier: MIT */
/*
 * branch_code_arm64.h - see branch_code.h.
 *
 * NOP and B are among the instructions that may replace each other under a processor that runs
 * them, so one store of a word is the whole change.
 */
#ifndef CODE_BRANCH_BRANCH_CODE_ARM64_H
#define CODE_BRANCH_BRANCH_CODE_ARM64_H

#include <stdint.h>
#include <string.h>

#include "code/poke/trap_code.h"

#define BRANCH_BYTES 4u
#define BRANCH_CHANGED_BYTES 4u
#define BRANCH_NOP 0xd503201fu
#define BRANCH_FAR (1ll << 27)

/* As the macros of <trapline/branch.h> write it: distances from the members themselves. */
struct branch_record {
	int32_t site;
	int32_t reference; /* of a pointer to the key; bit 0: inverted */
	int32_t target;	   /* a nop does not have it */
};

static inline int branch_text_is_jump(const uint8_t *text)
{
	return code_word(text) >> 26 == 5;
}

static inline uint64_t branch_target(const struct branch_record *record, const uint8_t *text)
{
	return (uintptr_t)&record->target + (uint64_t)(int64_t)record->target;
}

/* The bytes that change. 0: the target is out of reach. */
static inline int branch_put(uint8_t *out, uint64_t address, uint64_t target, int is_jump)
{
	const int64_t distance = (int64_t)(target - address);
	const uint32_t nop = BRANCH_NOP;

	if (is_jump)
		code_put_jump(out, address, target);
	else
		memcpy(out, &nop, sizeof(nop));
	return distance < BRANCH_FAR && distance >= -BRANCH_FAR;
}

static inline int branch_needs_exchange(void)
{
	return 0;
}

#endif
