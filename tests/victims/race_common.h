/* SPDX-License-Identifier: MIT */
/*
 * race_common.h - programs with a known race, or with none: MODE SECONDS on the command line.
 *
 * A mode is a function that two or more threads run until the time is over. The clock is asked
 * between rounds, so that the accesses in question are most of what runs.
 */
#ifndef TESTS_VICTIMS_RACE_COMMON_H
#define TESTS_VICTIMS_RACE_COMMON_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))
#define ROUND 100
#define THREADS_MAX 100

struct mode {
	const char *name;
	void (*run)(int thread);
	int threads;
};

static uint64_t end_ns;
static void (*mode_run)(int thread);

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline int is_running(void)
{
	return now_ns() < end_ns;
}

/* Work that a compiler does not take away and that touches nothing shared. */
static inline void work(int n)
{
	for (int i = 0; i < n; i++)
		__asm__ volatile("" ::: "memory");
}

#ifdef THREAD_LOCAL_BYTES
static __thread char locals[THREAD_LOCAL_BYTES] __attribute__((used));
#endif

static void *thread_main(void *arg)
{
	mode_run((int)(intptr_t)arg);
	return NULL;
}

static inline int run_modes(int argc, char **argv, const struct mode *modes, size_t count)
{
	pthread_t threads[THREADS_MAX];

	for (size_t i = 0; argc > 2 && i < count; i++) {
		if (strcmp(argv[1], modes[i].name) != 0)
			continue;
		end_ns = now_ns() + (uint64_t)(atof(argv[2]) * 1e9);
		mode_run = modes[i].run;
		for (int t = 0; t < modes[i].threads; t++)
			pthread_create(&threads[t], NULL, thread_main, (void *)(intptr_t)t);
		for (int t = 0; t < modes[i].threads; t++)
			pthread_join(threads[t], NULL);
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "--list")) {
		for (size_t i = 0; i < count; i++)
			puts(modes[i].name);
		return 0;
	}
	fprintf(stderr, "usage: %s MODE SECONDS | --list\n", argv[0]);
	return 2;
}

#endif
