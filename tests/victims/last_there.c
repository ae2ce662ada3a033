/* SPDX-License-Identifier: MIT */
/* last_there.c - a library with functions that never return, whose names are known nowhere. */
#include <stdlib.h>

#define NOINLINE __attribute__((noinline, noclone))

void there_aborts(void);
void there_loops(void);
void there_loops_by_word(void);
void there_deep(void);
void there_by_flag(int flag);
void there_returns(int flag);
void there_returns_by_word(int flag);
void there_recurses(int flag);
void there_is_chosen(void);
void there_may_be_chosen(void);

static volatile int count;

NOINLINE void there_aborts(void)
{
	count++;
	abort();
}

NOINLINE void there_loops(void)
{
	for (;;)
		count++;
}

/* Calls of these go through words that are bound at the start. */
NOINLINE void there_loops_by_word(void)
{
	for (;;)
		count += 2;
}

NOINLINE void there_returns_by_word(int flag)
{
	if (flag)
		there_loops();
	count += 2;
}

#define LEVEL(n, call)                       \
	static NOINLINE void level_##n(void) \
	{                                    \
		count += n;                  \
		call();                      \
		count -= n;                  \
	}
LEVEL(6, there_aborts)
LEVEL(5, level_6)
LEVEL(4, level_5)
LEVEL(3, level_4)
LEVEL(2, level_3)
LEVEL(1, level_2)

NOINLINE void there_deep(void)
{
	level_1();
}

/* It prints first, or it does not. */
NOINLINE void there_by_flag(int flag)
{
	if (flag)
		exit(1);
	there_aborts();
}

NOINLINE void there_returns(int flag)
{
	if (flag)
		there_aborts();
	count++;
}

NOINLINE void there_recurses(int flag)
{
	if (flag)
		there_recurses(flag - 1);
	there_returns(flag);
}

/* Two that jump to each other for ever. */
void there_turns(void);
__asm__("	.text\n"
	"	.globl there_turns\n"
	"	.type there_turns, @function\n"
	"there_turns:\n"
	"	test %rdi, %rdi\n"
	"	jmp there_turns_back\n"
	"	.size there_turns, . - there_turns\n"
	"there_turns_back:\n"
	"	dec %rdi\n"
	"	jmp there_turns\n");

static void (*choose_last(void))(void)
{
	return there_loops;
}

static void quietly(void)
{
	count++;
}

static void (*choose_quiet(void))(void)
{
	return quietly;
}

void there_is_chosen(void) __attribute__((ifunc("choose_last")));
void there_may_be_chosen(void) __attribute__((ifunc("choose_quiet")));
