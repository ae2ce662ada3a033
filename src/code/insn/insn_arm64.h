/* SPDX-License-Identifier: MIT */
/* insn_arm64.h - for the files that look into the bits of arm64 instructions themselves. */
#ifndef INSN_ARM64_H
#define INSN_ARM64_H

#include "code/insn/insn.h"

/* Bits low to low + n - 1 of word. */
static inline uint32_t arm64_bits(uint32_t word, unsigned int low, unsigned int n)
{
	return word >> low & ((1u << n) - 1);
}

static inline int64_t arm64_signed_bits(uint32_t word, unsigned int low, unsigned int n)
{
	return (int64_t)((uint64_t)arm64_bits(word, low, n) << (64 - n)) >> (64 - n);
}

/* Does word have these bits, as the manual writes them: fixed bits under a mask? */
static inline int arm64_is(uint32_t word, uint32_t mask, uint32_t fixed)
{
	return (word & mask) == fixed;
}

/* Number 31 is the zero register here; it is in no mask. */
static inline uint64_t arm64_mask(unsigned int reg)
{
	return reg == 31 ? 0 : 1ull << reg;
}

/* Number 31 is the stack pointer here, whose DWARF number is 31 too. */
static inline uint64_t arm64_mask_sp(unsigned int reg)
{
	return 1ull << reg;
}

/* Loads and stores. 0, or -EILSEQ; out is cleared, with length and arch set. */
int arm64_decode_memory(uint32_t word, struct insn *out);

#endif
