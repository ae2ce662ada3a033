/* SPDX-License-Identifier: MIT */
/*
 * race_seeming.c - what looks like a race and is none, or cannot be told from that: by how a variable is
 * declared, or since libc reads whole vectors. Nothing is reported.
 */
#include "race_common.h"

#include <stdatomic.h>

static long sink[2];
static volatile long volatile_count;
static volatile long volatile_state;

/* Whether or not it is right to read them so: nothing is lost by it. */
static NOINLINE void volatile_touch(int thread)
{
	if (thread) {
		sink[1] += volatile_count + volatile_state;
		return;
	}
	volatile_count++;
	volatile_state = sink[0]++;
}

static void volatile_of_one(int thread)
{
	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			volatile_touch(thread);
			work(20);
		}
}

static _Atomic long atomic_count;

/* Two steps, each of them atomic. */
static NOINLINE void atomic_touch(void)
{
	long now = atomic_load_explicit(&atomic_count, memory_order_relaxed);

	atomic_store_explicit(&atomic_count, now + 1, memory_order_relaxed);
}

static void atomic_in_two_steps(int thread)
{
	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			atomic_touch();
			work(20);
		}
}

/* 20 bytes are compared, by reading 32 where no page ends: the rest is the other thread's. */
static struct {
	char compared[24];
	long stored[5];
} block __attribute__((aligned(64)));
static char pattern[64];

static NOINLINE int compare(size_t n)
{
	return memcmp(block.compared, pattern, n);
}

static NOINLINE void store_beside(long v)
{
	block.stored[0] = v;
}

static void compare_beside(int thread)
{
	for (volatile long n = 20; is_running();)
		for (int i = 0; i < ROUND; i++) {
			if (thread)
				sink[1] += compare((size_t)n);
			else
				store_beside(sink[0]++);
			work(20);
		}
}

int main(int argc, char **argv)
{
	static const struct mode modes[] = {
		{ "volatile_of_one", volatile_of_one, 2 },
		{ "atomic_in_two_steps", atomic_in_two_steps, 2 },
		{ "compare_beside", compare_beside, 2 },
	};

	return run_modes(argc, argv, modes, sizeof(modes) / sizeof(modes[0]));
}
