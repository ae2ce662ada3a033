/* SPDX-License-Identifier: MIT */
/*
 * trap_code_arm64.h - brk: see trap_code.h.
 *
 * The architecture lets a word change under a processor that runs it if both old and new are B, BL,
 * BRK, HVC, ISB, NOP, SMC or SVC. ("Concurrent modification and execution of instructions".) Other
 * words go by way of brk. An aligned word is fetched whole there too, old or new: that is an
 * assumption, since the manual names those eight only. tests/model/poke_arm64.pml fails without it.
 * Nothing here was tried on silicon; emulation has no caches that software must maintain.
 */
#ifndef CODE_POKE_TRAP_CODE_ARM64_H
#define CODE_POKE_TRAP_CODE_ARM64_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include <trapline/code.h>

#include "base/text_byte.h"
#include "record/code_layout.h"

#define TRAP_BYTES 4u
#define TRAP_BEHIND 0u
/* A span is written word by word: a copy of many bytes promises nothing for one word. */
#define TRAP_HAS_ALL_WRITERS 0
#define CODE_WRITERS (~(uint32_t)TRAPLINE_WRITE_EXCHANGE)
#define CODE_ALIGN 4u
#define TRAP_FILL 0	       /* udf */
#define CODE_REACH 0x7000000ll /* 112 MiB, of the 128 that a branch has */
#define CODE_REACH_STEP (1ll << 20)
#define CODE_JUMP_BYTES 4u

#define TRAP_MASK 0xffe0001fu
#define TRAP_WORD 0xd4200000u /* brk, with any number */

#define TRAP_FORM CODE_FORM_BRK

static const uint8_t trap_code[TRAP_BYTES] = CODE_BRK;

static inline uint32_t code_word(const uint8_t *bytes)
{
	uint32_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

static inline void trap_store(uint8_t *at, const uint8_t *bytes)
{
	*(volatile uint32_t *)(void *)at = code_word(bytes);
}

static inline int trap_is(const uint8_t *bytes)
{
	return (code_word(bytes) & TRAP_MASK) == TRAP_WORD;
}

/* Byte by byte: when the word changes in between, the generation is another one. */
static inline int trap_is_at(uint64_t address)
{
	return text_byte(address + 3) == TRAP_WORD >> 24 &&
	       (text_byte(address + 2) & 0xe0) == (TRAP_WORD >> 16 & 0xff) &&
	       !(text_byte(address) & 0x1f);
}

static inline uint64_t trap_pc(const ucontext_t *context)
{
	return context->uc_mcontext.pc;
}

static inline void trap_set_pc(ucontext_t *context, uint64_t pc)
{
	context->uc_mcontext.pc = pc;
}

static inline void code_put_jump(uint8_t *out, uint64_t from, uint64_t to)
{
	uint32_t word = 0x14000000u | ((uint32_t)((int64_t)(to - from) / 4) & 0x3ffffffu);

	memcpy(out, &word, sizeof(word));
}

/* Where the jump at pc goes; 0: no jump. */
static inline uint64_t code_jump_target(uint64_t pc)
{
	const uint32_t word = code_word((const uint8_t *)(uintptr_t)pc);

	if (word >> 26 != 5)
		return 0;
	return pc + (uint64_t)((int64_t)((uint64_t)word << 38) >> 36);
}

static inline void code_copy(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

static inline void code_pause(void)
{
	__asm__ volatile("yield");
}

/* dc cvau, dsb ish, ic ivau, dsb ish, isb. */
static inline void code_sync_caches(uint64_t address, uint64_t bytes)
{
	__builtin___clear_cache((char *)(uintptr_t)address, (char *)(uintptr_t)(address + bytes));
}

#endif
