/* SPDX-License-Identifier: MIT */
/*
 * many.c - many threads that call tick() in turns, until the input ends.
 *
 * many N: prints "ready" when all are there. Each thread has a name of its own, t0000 and on; at the
 * end it prints how often tick() was called, as they counted, and what the variable says.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned long ticks;
static volatile int is_over;
static pthread_barrier_t all;

static __attribute__((noipa)) void tick(void)
{
	__atomic_fetch_add(&ticks, 1, __ATOMIC_RELAXED);
}

static void *thread(void *arg)
{
	char name[16];
	unsigned long calls = 0;

	snprintf(name, sizeof(name), "t%04ld", (long)arg);
	pthread_setname_np(pthread_self(), name);
	pthread_barrier_wait(&all);
	while (!is_over) {
		tick();
		calls++;
		usleep(900000 + (unsigned int)(long)arg * 50);
	}
	return (void *)calls;
}

int main(int argc, char **argv)
{
	size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 10;
	pthread_t *threads = calloc(n, sizeof(*threads));
	pthread_attr_t small;
	unsigned long calls = 0;
	char byte;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	pthread_barrier_init(&all, NULL, (unsigned int)n + 1);
	for (size_t i = 0; i < n; i++)
		if (pthread_create(&threads[i], &small, thread, (void *)i))
			return 1;
	pthread_barrier_wait(&all);
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	is_over = 1;
	for (size_t i = 0; i < n; i++) {
		void *made;
		pthread_join(threads[i], &made);
		calls += (unsigned long)made;
	}
	printf("%lu %lu\n", calls, ticks);
	return calls != ticks;
}
