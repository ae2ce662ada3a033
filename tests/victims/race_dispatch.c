/* SPDX-License-Identifier: MIT */
/*
 * race_dispatch.c - a pointer leads to a function that chooses one for this processor and puts it there,
 * which is right; and another function puts the first one back, which looks like a race. Both are
 * atomic, and nothing tells that: it is built without debug information.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

static uint64_t choose(uint64_t n);
static uint64_t (*_Atomic chosen)(uint64_t) = choose;

__attribute__((noinline)) static uint64_t best(uint64_t n)
{
	for (int i = 0; i < 500; i++)
		n = n * 6364136223846793005u + 1;
	return n;
}

__attribute__((noinline)) static uint64_t choose(uint64_t n)
{
	atomic_store_explicit(&chosen, best, memory_order_relaxed);
	return best(n);
}

static void *call(void *arg)
{
	uint64_t n = (uintptr_t)arg;

	do
		n += atomic_load_explicit(&chosen, memory_order_relaxed)(n);
	while (n);
	return NULL;
}

/* Near both. */
__attribute__((noinline)) static void begin_anew(void)
{
	atomic_store_explicit(&chosen, choose, memory_order_relaxed);
}

/* As if many short programs had run. */
int main(int argc, char **argv)
{
	struct timespec now;
	pthread_t threads[3];

	for (uintptr_t i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, call, (void *)i);
	clock_gettime(CLOCK_MONOTONIC, &now);
	for (time_t end = now.tv_sec + 3; now.tv_sec < end; clock_gettime(CLOCK_MONOTONIC, &now)) {
		begin_anew();
		best((uint64_t)argc);
	}
	return 0;
}
