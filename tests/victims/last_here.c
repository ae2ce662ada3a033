/* SPDX-License-Identifier: MIT */
/*
 * last_here.c - a library with constants behind calls that never come back, and code behind others.
 * The constants are those of instructions that access memory.
 */
#include <stdlib.h>

#include "last_here.h"

/* mov (%rdi), %rax five times, and a nop; behind it an access that is always reached. */
#define FUNCTION(name, call)                                              \
	__asm__("	.text\n"                                                \
		"	.globl " #name ", " #name "_bytes\n"              \
		"	.type " #name ", @function\n" #name ":\n"         \
		"	.cfi_startproc\n"                                       \
		"	test %rdi, %rdi\n"                                      \
		"	jne 1f\n" call "\n" #name "_bytes:\n"             \
		"	.byte 0x48, 0x8b, 0x07, 0x48, 0x8b, 0x07, 0x48, 0x8b\n" \
		"	.byte 0x07, 0x48, 0x8b, 0x07, 0x48, 0x8b, 0x07, 0x90\n" \
		"1:	mov (%rdi), %rax\n"                                   \
		"	ret\n"                                                  \
		"	.cfi_endproc\n"                                         \
		"	.size " #name ", . - " #name "\n");
#define BY_TABLE(name, callee) FUNCTION(name, "	call " #callee "@plt")
#define BY_WORD(name, callee) FUNCTION(name, "	call *" #callee "@GOTPCREL(%rip)")

void here_dies(void);
void here_dies_by_word(void);
void here_returns(void);
void here_or_in_the_program(void);

static volatile int here_count;

__attribute__((noinline)) void here_dies(void)
{
	here_count++;
	abort();
}

__attribute__((noinline)) void here_returns(void)
{
	here_count++;
}

/* Calls of these go through words that are bound at the start. */
__attribute__((noinline)) void here_dies_by_word(void)
{
	here_count += 2;
	abort();
}

/* The program has another one, that never returns. */
__attribute__((noinline)) void here_or_in_the_program(void)
{
	here_count++;
}

__asm__("	.weak there_is_none, there_is_none_by_word\n");

LAST_HERE_NEVER(BY_TABLE)
LAST_HERE_NEVER_BY_WORD(BY_WORD)
LAST_HERE_RETURNS(BY_TABLE)
LAST_HERE_RETURNS_BY_WORD(BY_WORD)
