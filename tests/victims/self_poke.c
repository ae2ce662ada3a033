/* SPDX-License-Identifier: MIT */
/*
 * self_poke.c - changes a function of its own 100 times while a thread runs it, then passes a trap
 * of its own 100 times; says what came of both. With an argument: flips only, nobody runs it.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <trapline/code.h>

/* Begins with a 5-byte instruction: mov $1, %eax. */
int poked(void);
__asm__(".text\n.p2align 4\n.globl poked\n.type poked, @function\n"
	"poked:\n.byte 0xb8, 1, 0, 0, 0\nret\n.size poked, . - poked\n");

static int stop;
static int wrong;

static void *run(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		int value = poked();

		wrong += value != 1 && value != 0x20304050;
	}
	return NULL;
}

static int flip(void)
{
	static const uint8_t bytes[2][5] = { { 0xb8, 1, 0, 0, 0 },
					     { 0xb8, 0x50, 0x40, 0x30, 0x20 } };
	uint64_t address = (uint64_t)(uintptr_t)poked;
	int err = 0;

	for (int i = 0; i < 100 && !err; i++) {
		struct trapline_poke_site change = { address, bytes[i & 1],
						     bytes[!(i & 1)], 5 };

		err = trapline_poke(&change, 1, NULL);
	}
	return err;
}

int main(int argc, char **argv)
{
	uint64_t address = (uint64_t)(uintptr_t)poked;
	struct trapline_traps *traps;
	pthread_t thread;
	uint64_t hits = 0;
	int sum = 0;

	__atomic_store_n(&stop, argc > 1, __ATOMIC_RELAXED);
	pthread_create(&thread, NULL, run, NULL);
	int err = flip();
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	printf("self_poke: 100 flips: %s, %d wrong\n",
	       err ? strerrorname_np(-err) : "done", wrong);
	if (argc > 1)
		return 0;
	err = trapline_traps_set(&address, 1, NULL, &traps);
	for (int i = 0; i < 100; i++)
		sum += poked();
	if (!err) {
		trapline_traps_hits(traps, 0, NULL, &hits);
		trapline_traps_remove(traps);
	}
	printf("self_poke: %d hits, sum %d\n", (int)hits, sum);
	return 0;
}
