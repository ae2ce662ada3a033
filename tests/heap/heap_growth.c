/* SPDX-License-Identifier: MIT */
/*
 * heap_growth.c KIND [PERCENT] - allocates a million blocks; PERCENT of them stay. It prints the bytes that
 * stay, and what the allocator has in use, as JSON.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 1000000L
#define BYTES 104
#define KEPT 1000

static void *ring[KEPT];

__attribute__((noinline)) static void *leak(size_t n)
{
	return memset(malloc(n), 1, n);
}

__attribute__((noinline)) static void *cached(size_t n)
{
	return memset(malloc(n), 1, n);
}

__attribute__((noinline)) static void *at_start(size_t n)
{
	return memset(malloc(n), 1, n);
}

static long work(long percent)
{
	long leaked = 0;

	for (long i = 0; i < BLOCKS; i++) {
		if (i % 100 < percent) {
			leak(BYTES);
			leaked += BYTES;
			continue;
		}
		void **p = &ring[i % KEPT];
		free(*p);
		*p = cached(64 + i % 64);
	}
	return leaked;
}

static long starts(void)
{
	for (int i = 0; i < 100000; i++)
		at_start(BYTES);
	work(0);
	for (int n = 0; n < 4; n++)
		work(0);
	return 100000L * BYTES;
}

static long large(void)
{
	for (int i = 0; i < 20; i++)
		leak(1 << 20);
	return 20L << 20;
}

static long frees_all(void)
{
	work(0);
	for (int i = 0; i < KEPT; i++)
		free(ring[i]);
	return 0;
}

/* The child has a copy of what its parent leaked, and leaks as much itself. */
static long child(void)
{
	long leaked = work(10);
	pid_t pid = fork();

	if (!pid) {
		work(10);
		exit(0);
	}
	waitpid(pid, NULL, 0);
	return 2 * leaked;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";
	const long percent = argc > 2 ? atol(argv[2]) : 0;
	long leaked = !strcmp(kind, "starts") ? starts() :
		      !strcmp(kind, "large")  ? large() :
		      !strcmp(kind, "child")  ? child() :
		      !strcmp(kind, "frees")  ? frees_all() :
						work(percent);
	struct mallinfo2 m = mallinfo2();

	printf("{\"leaked\": %ld, \"in_use\": %zu}\n", leaked, m.uordblks + m.hblkhd);
	fflush(stdout);
	if (!strcmp(kind, "waits"))
		for (;;)
			leaked += work(percent), usleep(1000);
	return 0;
}
