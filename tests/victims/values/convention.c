/* SPDX-License-Identifier: MIT */
/* convention.c - functions whose arguments are where the convention says, or elsewhere. */
#include <stdio.h>
#include <unistd.h>

static volatile long sink;

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

int main(int argc, char **argv)
{
	for (int i = 1; i < 3000; i++) {
		plain(i, 1000 + i);
		other(i, 2000 + i);
		unused(argv, i);
		usleep(20000);
	}
	return argc > 9;
}
