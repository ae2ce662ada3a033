/* SPDX-License-Identifier: MIT */
/* convention.c - functions whose arguments are where the convention says, or elsewhere. */
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

static volatile long sink;

static inline void keep_length(long double value)
{
	volatile long double kept = value;

	(void)kept;
}

static inline void keep_whether(bool value)
{
	volatile bool kept = value;

	(void)kept;
}

__attribute__((noinline)) long plain(int a, long b)
{
	sink = b;
	printf("plain %d %ld\n", a, b);
	fflush(stdout);
	return a + b;
}

__attribute__((noinline, ms_abi)) long other(int a, long b)
{
	sink = b;
	printf("other %d %ld\n", a, b);
	fflush(stdout);
	return a + b;
}

/* Its first argument and its result are used nowhere. */
__attribute__((noinline)) long unused(void *a, int b)
{
	sink = b;
	return sink * 2;
}

/* In memory is the first argument; the second is the same for all callers, so that none is passed. */
__attribute__((noinline)) const char *fixed(long double length, bool is_set)
{
	keep_length(length);
	keep_whether(is_set);
	sink++;
	return "fixed";
}

int main(int argc, char **argv)
{
	for (int i = 1; i < 3000; i++) {
		plain(i, 1000 + i);
		other(i, 2000 + i);
		unused(argv, i);
		puts(fixed(i + 0.5L, true));
		usleep(20000);
	}
	return argc > 9;
}
