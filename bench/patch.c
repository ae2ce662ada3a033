/* SPDX-License-Identifier: MIT */
/*
 * patch.c - what a patch costs, as JSON lines: a call bare, patched, and through a gate; an int3 in the
 * same run; and how long a thread waits at most while functions are swapped under it.
 *
 *	bench_patch [SWAPS]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <trapline/code.h>
#include <trapline/tools.h>

#define CALLS 2000000
#define SLOW_CALLS 20000
#define ROUNDS 9

static struct trapline *target;
static atomic_int must_stop;
static int asleep_pipe[2];

__attribute__((noipa)) static int old_function(int x)
{
	return x + 1;
}

__attribute__((noipa)) static int new_function(int x)
{
	return x + 2;
}

__attribute__((noipa)) static int old_sleeper(void)
{
	char byte;
	int n = (int)read(asleep_pipe[0], &byte, 1);

	__asm__ volatile("" ::: "memory");
	return n;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median. */
static double ns_per_call(int calls)
{
	double results[ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t start = now_ns();

		for (int i = 0; i < calls; i++)
			old_function(i);
		results[round] = (double)(now_ns() - start) / calls;
	}
	qsort(results, ROUNDS, sizeof(*results), compare);
	return results[ROUNDS / 2];
}

static void must(int result, const char *what)
{
	char text[256];

	if (result >= 0)
		return;
	trapline_explain(result, text, sizeof(text));
	fprintf(stderr, "bench_patch: cannot %s: %s\n", what, text);
	exit(1);
}

static struct trapline_patch *patch(uint32_t consistency, int with_sleeper)
{
	const struct trapline_patch_function both[] = {
		{ .name = "old_function",
		  .old_address = (uintptr_t)old_function,
		  .new_address = (uintptr_t)new_function },
		{ .name = "old_sleeper",
		  .old_address = (uintptr_t)old_sleeper,
		  .new_address = (uintptr_t)new_function },
	};
	struct trapline_patch *out;
	TRAPLINE_OPTS(patch, opts);

	opts.consistency = consistency;
	opts.timeout_ns = with_sleeper ? 20000000 : 10000000000u;
	must(trapline_patch(target, both, with_sleeper ? 2 : 1, &opts, &out), "patch");
	return out;
}

static void *sleep_inside(void *arg)
{
	old_sleeper();
	return arg;
}

static void *call_flat_out(void *arg)
{
	while (!must_stop)
		old_function(1);
	return arg;
}

static void print_calls(const char *what, double ns)
{
	printf("{\"bench\":\"patch\",\"what\":\"%s\",\"ns_per_call\":%.2f}\n", what, ns);
	fflush(stdout);
}

static void bench_calls(void)
{
	const uint64_t address = (uintptr_t)old_function;
	struct trapline_traps *traps;
	pthread_t thread;

	print_calls("bare", ns_per_call(CALLS));
	struct trapline_patch *one = patch(TRAPLINE_PATCH_IMMEDIATE, 0);
	print_calls("patched", ns_per_call(CALLS));
	must(trapline_patch_undo(one, 0), "undo");
	if (pipe(asleep_pipe))
		exit(1);
	pthread_create(&thread, NULL, sleep_inside, NULL);
	usleep(50000);
	one = patch(TRAPLINE_PATCH_PER_THREAD, 1);
	print_calls("gate of a thread that has changed", ns_per_call(CALLS / 10));
	if (write(asleep_pipe[1], "x", 1) != 1)
		exit(1);
	pthread_join(thread, NULL);
	must(trapline_patch_undo(one, 10000000000u), "undo");
	must(trapline_traps_set(&address, 1, NULL, &traps), "set a trap");
	print_calls("int3 that counts", ns_per_call(SLOW_CALLS));
	must(trapline_traps_remove(traps), "remove a trap");
}

static void bench_swaps(const char *what, uint32_t consistency, int threads, int swaps)
{
	pthread_t callers[16];
	uint64_t longest = 0;
	uint64_t held = 0;

	must_stop = 0;
	for (int i = 0; i < threads; i++)
		pthread_create(&callers[i], NULL, call_flat_out, NULL);
	uint64_t start = now_ns();
	for (int i = 0; i < swaps; i++) {
		struct trapline_patch_stats stats = { .size = sizeof(stats) };
		struct trapline_patch *one = patch(consistency, 0);

		must(trapline_patch_stats(one, &stats), "read statistics");
		longest = stats.longest_wait_ns > longest ? stats.longest_wait_ns : longest;
		held = stats.longest_held_ns > held ? stats.longest_held_ns : held;
		must(trapline_patch_undo(one, 10000000000u), "undo");
	}
	double seconds = (double)(now_ns() - start) / 1e9;
	must_stop = 1;
	for (int i = 0; i < threads; i++)
		pthread_join(callers[i], NULL);
	printf("{\"bench\":\"patch\",\"what\":\"swaps\",\"consistency\":\"%s\",\"threads\":%d,"
	       "\"swaps\":%d,\"swaps_per_second\":%.0f,\"longest_wait_us\":%.1f,\"longest_held_us\":%.1f}\n",
	       what, threads, 2 * swaps, 2 * swaps / seconds, (double)longest / 1000,
	       (double)held / 1000);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int swaps = argc > 1 ? atoi(argv[1]) : 200;

	must(trapline_open(0, NULL, &target), "open this process");
	bench_calls();
	for (int threads = 1; threads <= 16; threads *= 16) {
		bench_swaps("immediate", TRAPLINE_PATCH_IMMEDIATE, threads, swaps);
		bench_swaps("per-thread", TRAPLINE_PATCH_PER_THREAD, threads, swaps / 10 + 1);
		bench_swaps("no-thread-inside", TRAPLINE_PATCH_NO_THREAD_INSIDE, threads,
			    swaps / 10 + 1);
	}
	trapline_close(target);
	return 0;
}
