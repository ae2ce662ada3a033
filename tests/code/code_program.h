/* SPDX-License-Identifier: MIT */
/*
 * code_program.h - the instructions of the program that code_machine.h simulates, by processor.
 *
 * It is a ring of blocks, each with a site. A block: an unconditional way and a conditional one to
 * the site at +8, the way on behind it, another one at +32, and a function at +48. A site is a nop,
 * a jump to +32, the same under a condition, a call of +48, or what a copy runs. Where they lead is
 * as long as the way on, so that a wrong variant gives another path with the same number of bits.
 */
#ifndef TESTS_CODE_CODE_PROGRAM_H
#define TESTS_CODE_CODE_PROGRAM_H

#include <stdint.h>
#include <string.h>

#include "record/code_layout.h"

#define BLOCK 64u
#define VARIANTS 5
#define COPIED 4 /* the variant that is not emulated */

#if defined(__x86_64__)
#define SITE_BYTES 5
#define OTHER_BYTES 2 /* decide all other instructions */
#define TRAP_LEN 1
#define LOG_FORM CODE_FORM_TRAP
static const uint8_t trap_bytes[TRAP_LEN] = { 0xcc };
#define FILL_BYTE 0xcc

/* nop; jump; conditional jump with prefixes that do nothing; call; a move. */
static const uint8_t site_forms[VARIANTS][SITE_BYTES] = {
	{ 0x0f, 0x1f, 0x44, 0x00, 0x00 },
	{ 0xe9, 24 - 5, 0, 0, 0 },
	{ 0x2e, 0x2e, 0x2e, 0x74, 24 - 5 },
	{ 0xe8, 40 - 5, 0, 0, 0 },
	{ 0xb9, 1, 2, 3, 4 },
};

/*
 * +0 nop nop jz; +8 site; +13 nop jz, jmp to the next; +32 jnz, jmp to the next; +48 jz, ret.
 * The last block jumps back to the first by a register, and so has an indirect target.
 */
static inline void put_block(uint8_t *at, int is_last)
{
	memcpy(at, "\x90\x90\x74\x00\x90\x90\x66\x90", 8);
	if (is_last) {
		memcpy(at + 8, "\xff\xe0", 2); /* jmp *%rax */
		return;
	}
	memcpy(at + 13, "\x90\x74\x00\xeb", 4);
	at[17] = (uint8_t)(BLOCK - 18);
	memcpy(at + 32, "\x75\x00\xeb", 3);
	at[35] = (uint8_t)(BLOCK - 36);
	memcpy(at + 48, "\x74\x00\xc3", 3);
}

static inline void put_jump_back(uint8_t *at, uint64_t from, uint64_t to)
{
	int32_t distance = (int32_t)(to - from - 5);

	at[0] = 0xe9;
	memcpy(at + 1, &distance, sizeof(distance));
}
#else
#define SITE_BYTES 4
#define OTHER_BYTES 4
#define TRAP_LEN 4
#define LOG_FORM CODE_FORM_BRK
static const uint8_t trap_bytes[TRAP_LEN] = CODE_BRK;
#define FILL_BYTE 0

#define WORD(w) { (w)&0xff, (w) >> 8 & 0xff, (w) >> 16 & 0xff, (w) >> 24 & 0xff }
/* nop; b; b.eq; bl; add x9, x9, #1 */
static const uint8_t site_forms[VARIANTS][SITE_BYTES] = {
	WORD(0xd503201fu), WORD(0x14000006u), WORD(0x540000c0u), WORD(0x9400000au), WORD(0x91000529u),
};

/*
 * +0 nop, b.eq; +8 site; +12 nop, b.eq, b to the next; +32 b.ne, b to the next; +48 b.eq, ret. The
 * last block is as on x86-64.
 */
static inline void put_block(uint8_t *at, int is_last)
{
	static const uint32_t words[BLOCK / 4] = {
		0xd503201f, 0x54000020, 0, 0xd503201f, 0x54000020, 0x1400000b, 0, 0,
		0x54000021, 0x14000007, 0, 0,	       0x54000020, 0xd65f03c0,
	};
	static const uint32_t branch = 0xd61f0000; /* br x0 */

	memcpy(at, words, sizeof(words));
	if (is_last)
		memcpy(at + 8, &branch, sizeof(branch));
}

static inline void put_jump_back(uint8_t *at, uint64_t from, uint64_t to)
{
	uint32_t word = 0x14000000u | ((uint32_t)((int64_t)(to - from) / 4) & 0x3ffffffu);

	memcpy(at, &word, sizeof(word));
}
#endif

#endif
