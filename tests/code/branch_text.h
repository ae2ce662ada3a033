/* SPDX-License-Identifier: MIT */
/* branch_text.h - a branch as it is in the text, by processor. */
#ifndef TESTS_CODE_BRANCH_TEXT_H
#define TESTS_CODE_BRANCH_TEXT_H

#include "code_test.h"

#if defined(__x86_64__)
typedef uint8_t branch_code;
#define BRANCH_OFF 0xa9
#define BREAKPOINT 0xcc
#else
typedef uint32_t branch_code;
#define BRANCH_OFF 0xd503201fu /* nop */
#define BREAKPOINT 0xd4200000u
#endif

/* The first branch of a function; its key is off. */
static inline branch_code *find_branch(int (*function)(void))
{
	branch_code *at = (branch_code *)(uintptr_t)function;

	while (*at != BRANCH_OFF)
		at++;
	return at;
}

static inline void write_text(branch_code *at, branch_code code)
{
	uint8_t *page = (uint8_t *)((uintptr_t)at & ~4095ul);

	assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	*(volatile branch_code *)at = code;
	__builtin___clear_cache((char *)at, (char *)(at + 1));
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
}

static inline void wait_a_little(void)
{
#if defined(__x86_64__)
	__asm__ volatile("pause");
#else
	__asm__ volatile("yield");
#endif
}

#endif
