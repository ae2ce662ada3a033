/* SPDX-License-Identifier: MIT */
/* patch_code_arm64.h - see patch_code.h. */
#ifndef PATCH_PATCH_CODE_ARM64_H
#define PATCH_PATCH_CODE_ARM64_H

#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "code/poke/trap_code.h"

/*
 * The return address is in x30 first. A function that calls no other leaves it there, and the
 * kernel does not show that register of a thread that sleeps.
 */
#define PATCH_RETURNS_BY_REGISTER 1
/* From the first record of a signal frame: the sp of what was interrupted, then its pc. */
#define PATCH_CONTEXT_SP (-(int64_t)PATCH_CONTEXT_BYTES)
#define PATCH_CONTEXT_BYTES (offsetof(mcontext_t, __reserved) - offsetof(mcontext_t, sp))

/* The head of that record, which is of the vector registers: FPSIMD_MAGIC and its bytes. */
static inline int patch_is_context(uint64_t word, uint64_t restorer)
{
	return word == ((uint64_t)528 << 32 | 0x46508001u);
}

/* Without a signature, which a function may have put above the address. */
static inline uint64_t patch_return(uint64_t word)
{
	return word & ((1ull << 48) - 1);
}

/* Where what was interrupted returns to, if it calls no other; 0: that is on the stack. */
static inline uint64_t patch_link(const ucontext_t *context)
{
	return context->uc_mcontext.regs[30];
}

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
