/* SPDX-License-Identifier: MIT */
/* random.h - random numbers that can be had again: the seed is printed, TRAPLINE_SEED gives it. */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t random_state;

static inline uint64_t random_next(void)
{
	/* splitmix64 */
	uint64_t z = (random_state += 0x9e3779b97f4a7c15u);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline uint64_t random_below(uint64_t n)
{
	return random_next() % n;
}

/* The seed goes to stderr: newer versions of meson want the header of TAP first. */
static inline void random_seed(void)
{
	const char *given = getenv("TRAPLINE_SEED");
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	random_state = given ? strtoull(given, NULL, 0) :
			       (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	fprintf(stderr, "# TRAPLINE_SEED=%llu\n", (unsigned long long)random_state);
}

#endif
