/* SPDX-License-Identifier: MIT */
/* trap_code_x86_64.h - int3: see trap_code.h. */
#ifndef CODE_POKE_TRAP_CODE_X86_64_H
#define CODE_POKE_TRAP_CODE_X86_64_H

#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include <trapline/code.h>

#include "base/text_byte.h"
#include "record/code_layout.h"

#define INT3 0xcc

#define TRAP_BYTES 1u
#define TRAP_BEHIND 1u	       /* the pc of the signal is so far behind the trap */
#define TRAP_HAS_ALL_WRITERS 1 /* spans by one write, exchanges of pages */
#define CODE_WRITERS UINT32_MAX
#define CODE_ALIGN 1u		/* of each instruction */
#define TRAP_FILL INT3		/* memory without code */
#define CODE_REACH 0x70000000ll /* 1.75 GiB: also operands at the far end of the text */
#define CODE_REACH_STEP (16ll << 20)
#define CODE_JUMP_BYTES 5u

#define TRAP_FORM CODE_FORM_TRAP

static const uint8_t trap_code[TRAP_BYTES] = { INT3 };

static inline void trap_store(uint8_t *at, const uint8_t *bytes)
{
	*(volatile uint8_t *)at = *bytes;
}

static inline int trap_is(const uint8_t *bytes)
{
	return *bytes == INT3;
}

static inline int trap_is_at(uint64_t address)
{
	return text_byte(address) == INT3;
}

static inline uint64_t trap_pc(const ucontext_t *context)
{
	return (uint64_t)context->uc_mcontext.gregs[REG_RIP];
}

static inline void trap_set_pc(ucontext_t *context, uint64_t pc)
{
	context->uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
}

static inline void code_put_jump(uint8_t *out, uint64_t from, uint64_t to)
{
	int32_t distance = (int32_t)(to - from - CODE_JUMP_BYTES);

	out[0] = 0xe9;
	memcpy(out + 1, &distance, sizeof(distance));
}

/* Where the jump at pc goes; 0: no jump. */
static inline uint64_t code_jump_target(uint64_t pc)
{
	const uint8_t *at = (const uint8_t *)(uintptr_t)pc;
	int32_t distance;

	if (*at != 0xe9)
		return 0;
	memcpy(&distance, at + 1, sizeof(distance));
	return pc + CODE_JUMP_BYTES + (uint64_t)(int64_t)distance;
}

static inline void code_copy(void *to, const void *from, size_t bytes)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

static inline void code_pause(void)
{
	__builtin_ia32_pause();
}

/* The processor does it. */
static inline void code_sync_caches(uint64_t address, uint64_t bytes)
{
}

#endif
