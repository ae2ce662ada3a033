/* SPDX-License-Identifier: MIT */
/* patch_code_x86_64.h - see patch_code.h. */
#ifndef PATCH_PATCH_CODE_X86_64_H
#define PATCH_PATCH_CODE_X86_64_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

/* Each return address is on a stack, so a scan finds it. */
#define PATCH_RETURNS_BY_REGISTER 0
/* In a signal frame, from the return address on: the rsp of what was interrupted, then rip. */
#define PATCH_CONTEXT_SP (8 + 160)

static inline int patch_is_context(uint64_t word, uint64_t restorer)
{
	return word == restorer;
}

static inline uint64_t patch_return(uint64_t word)
{
	return word;
}

static inline uint64_t patch_link(const ucontext_t *context)
{
	return 0;
}

/* Bytes in front of the first instruction that can be replaced: endbr64. */
static inline size_t patch_landing_bytes(const uint8_t *code, size_t n)
{
	static const uint8_t landing[] = { 0xf3, 0x0f, 0x1e, 0xfa };

	return n >= sizeof(landing) && !memcmp(code, landing, sizeof(landing)) ? sizeof(landing) :
										 0;
}

/* jmp *x(%rip), also with a bnd prefix. */
static inline int patch_is_linkage(const uint8_t *code, size_t n)
{
	return (n >= 2 && !memcmp(code, "\xff\x25", 2)) ||
	       (n >= 3 && !memcmp(code, "\xf2\xff\x25", 3));
}

#endif
