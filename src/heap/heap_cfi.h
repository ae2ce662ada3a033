/* SPDX-License-Identifier: MIT */
/*
 * heap_cfi.h - what .eh_frame states of a return address: how the stack continues from there.
 * x86-64.
 */
#ifndef HEAP_CFI_H
#define HEAP_CFI_H

#include <stdint.h>

/*
 * A rule has 17 bits. The end (CFA) of the frame of the function that continues at the return
 * address: that many words above the stack pointer or the frame pointer. Or a word below the frame
 * pointer has that address. The frame pointer of its caller is unchanged, so many words below that
 * end, or where the frame pointer is.
 */
enum {
	HEAP_CFI_BY_SP,
	HEAP_CFI_BY_BP,
	HEAP_CFI_BY_WORD,
	HEAP_CFI_NOT,
};

#define HEAP_CFI_WORDS_MAX 4095u
#define HEAP_CFI_SAVED_MAX 6u
#define HEAP_CFI_SAVED_AT_BP 7u

#define HEAP_CFI_RULE(kind, words, saved) \
	((uint32_t)(kind) | (uint32_t)(words) << 2 | (uint32_t)(saved) << 14)
#define HEAP_CFI_KIND(rule) ((rule)&3)
#define HEAP_CFI_WORDS(rule) ((rule) >> 2 & 4095)
#define HEAP_CFI_SAVED(rule) ((rule) >> 14 & 7)

#define HEAP_CFI_LAST HEAP_CFI_RULE(HEAP_CFI_NOT, 0, 0)	   /* nothing called it */
#define HEAP_CFI_UNKNOWN HEAP_CFI_RULE(HEAP_CFI_NOT, 1, 0) /* there is no such rule */

/* AS-Safe: no lock, no allocation. */
uint32_t heap_cfi_rule(uint64_t return_address);

#endif
