/* SPDX-License-Identifier: MIT */
/*
 * red_zone.c - functions without a frame, with nops of 5 bytes between accesses to their variables. On SIGTERM
 * it prints how many sums were wrong.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>

#define NOP_BEFORE_LOOP(n)                                                   \
	__asm__ volatile(".byte 0x0f,0x1f,0x44,0x00,0x00\n1: dec %0\njnz 1b" \
			 : "+r"(n)                                           \
			 :                                                   \
			 : "memory", "cc")

static volatile sig_atomic_t is_over;
static unsigned long debug_calls;

/* A branch that is switched in the code: while it is off, it is a nop. */
static inline __attribute__((always_inline)) int debug_enabled(void)
{
	__asm__ goto(".byte 0x0f,0x1f,0x44,0x00,0x00" : : : "memory" : on);
	return 0;
on:
	return 1;
}

static inline void fill(volatile uint64_t v[4], uint64_t a, uint64_t b)
{
	v[0] = a;
	v[1] = b;
	v[2] = a + b;
	v[3] = a ^ b;
}

static __attribute__((noinline)) uint64_t sum_branch(uint64_t a, uint64_t b)
{
	volatile uint64_t v[4];

	fill(v, a, b);
	if (debug_enabled()) /* a branch that is off */
		debug_calls++;
	return v[0] + v[1] + v[2] + v[3];
}

static __attribute__((noinline)) uint64_t sum_loop(uint64_t a, uint64_t b)
{
	volatile uint64_t v[4];
	uint64_t rounds = 3;

	fill(v, a, b);
	NOP_BEFORE_LOOP(rounds); /* a nop before a loop */
	return v[0] + v[1] + v[2] + v[3];
}

static void on_term(int number)
{
	is_over = number;
}

int main(void)
{
	unsigned long wrong = 0;

	signal(SIGTERM, on_term);
	for (uint64_t i = 0; !is_over; i++) {
		uint64_t right = 2 * (i + i % 7) + (i ^ i % 7);

		wrong += sum_branch(i, i % 7) != right;
		wrong += sum_loop(i, i % 7) != right;
		for (volatile int pause = 0; pause < 3000; pause++)
			;
	}
	printf("wrong sums: %lu\n", wrong);
	return wrong != 0;
}
