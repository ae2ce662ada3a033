/* SPDX-License-Identifier: MIT */
/* patch_code_arm64.h - see patch_code.h. */
#ifndef PATCH_PATCH_CODE_ARM64_H
#define PATCH_PATCH_CODE_ARM64_H

#include <stddef.h>
#include <stdint.h>

#include "code/poke/trap_code.h"

/*
 * A function that calls no other keeps its return address in x30. The kernel does not show that
 * register of a thread that sleeps, so a stack alone does not prove that a thread is outside.
 */
#define PATCH_SEES_STACKS 0
#define PATCH_CONTEXT_SP 0

/* Bytes in front of the first instruction that can be replaced: bti c. */
static inline size_t patch_landing_bytes(const uint8_t *code, size_t n)
{
	return n >= 4 && code_word(code) == 0xd503245fu ? 4 : 0;
}

/* adrp x16, page; ldr x17, [x16, #slot] */
static inline int patch_is_linkage(const uint8_t *code, size_t n)
{
	return n >= 8 && (code_word(code) & 0x9f00001f) == 0x90000010 &&
	       (code_word(code + 4) & 0xffc003ff) == 0xf9400211;
}

#endif
