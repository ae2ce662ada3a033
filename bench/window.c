/* SPDX-License-Identifier: MIT */
/*
 * window.c - what an instruction in a window costs, as JSON lines: ns for each, warm and for a new one.
 *
 * The floor is the same code natively, the peer is the same program under valgrind --tool=none. All are
 * measured in one run, by turns; medians.
 *
 * Usage: bench_window [--native]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <trapline/window.h>

#include "median.h"

#define ROUNDS 15
#define CALLS 60000
#define NEW_INSNS 20000
#define GENERAL __attribute__((target("general-regs-only")))

static uint64_t blocks, accesses;

GENERAL static int on_block(uint64_t pc, uint32_t insns, const uint64_t *regs, void *arg)
{
	blocks++;
	return 0;
}

GENERAL static int on_access(uint64_t pc, uint64_t address, uint32_t bytes, uint32_t access,
			     const uint64_t *regs, void *arg)
{
	accesses++;
	return 0;
}

/* Of the thread: the machine may be busy. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Calls, loads, stores and branches that depend on data: about 30 instructions a turn. */
static __attribute__((noinline)) uint64_t step(uint64_t *table, uint64_t i)
{
	uint64_t h = i * 0x9e3779b97f4a7c15u ^ table[i & 255];

	if (h & 64)
		table[h >> 8 & 255] += i;
	else
		table[h >> 16 & 255] ^= h;
	for (int n = 0; n < (int)(h & 3); n++)
		h = h << 7 | h >> 57;
	return h;
}

static uint64_t table[256];

static __attribute__((noinline)) uint64_t work(void)
{
	uint64_t sum = 0;

	memset(table, 1, sizeof(table));
	for (uint64_t i = 0; i < CALLS; i++)
		sum += step(table, i);
	return sum;
}

static volatile uint64_t sink;

static double native_ns(void)
{
	const double begin = now();

	sink = work();
	return now() - begin;
}

/* The second time: all is translated. */
static double window_ns(const struct trapline_window_opts *opts, uint64_t *insns)
{
	struct trapline_window_stats stats = { .size = sizeof(stats) };
	double ns = 0;

	for (int i = 0; i < 2; i++) {
		if (trapline_window(opts)) {
			fprintf(stderr, "bench_window: cannot begin a window\n");
			exit(1);
		}
		const double begin = now();
		sink = work();
		ns = now() - begin;
		trapline_window_end();
	}
	trapline_window_stats(&stats);
	*insns = stats.instructions;
	return ns;
}

/* Blocks of five instructions: nothing of it has been seen before. */
static double new_ns(void)
{
	static const uint8_t unit[] = { 0x48, 0x01, 0xc8, 0x48, 0x8b, 0x57, 0x08, 0x48, 0x83,
					0xc1, 0x07, 0x48, 0x89, 0x57, 0x10, 0xeb, 0x00 };
	const size_t units = NEW_INSNS / 5;
	struct trapline_window_opts opts = { .size = sizeof(opts) };
	struct trapline_window_stats stats = { .size = sizeof(stats) };
	uint8_t *code = mmap(NULL, units * sizeof(unit) + 1, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*function)(uint64_t *) = (void (*)(uint64_t *))(uintptr_t)code;
	double ns[2];

	if (code == MAP_FAILED)
		exit(1);
	for (size_t i = 0; i < units; i++)
		memcpy(code + i * sizeof(unit), unit, sizeof(unit));
	code[units * sizeof(unit)] = 0xc3;
	function(table);
	if (trapline_window(&opts))
		exit(1);
	for (int i = 0; i < 2; i++) {
		const double begin = now();
		function(table);
		ns[i] = now() - begin;
	}
	trapline_window_end();
	trapline_window_stats(&stats);
	munmap(code, units * sizeof(unit) + 1);
	return (ns[0] - ns[1]) / NEW_INSNS;
}

static double valgrind_ns(const char *self)
{
	char command[4096];
	double ns = 0;

	snprintf(command, sizeof(command), "valgrind -q --tool=none '%s' --native 2>/dev/null",
		 self);
	FILE *out = popen(command, "r");
	if (!out)
		return 0;
	if (fscanf(out, "%lf", &ns) != 1)
		ns = 0;
	pclose(out);
	return ns;
}

static void print(const char *what, double ns, double floor)
{
	printf("{\"bench\":\"window\",\"what\":\"%s\",\"ns_per_instruction\":%.2f,\"times_native\":%.1f}\n",
	       what, ns, floor > 0 ? ns / floor : 0);
}

/* Under valgrind: warm, as the others are. */
static int print_native(void)
{
	double times[ROUNDS];

	native_ns();
	for (int i = 0; i < ROUNDS; i++)
		times[i] = native_ns();
	printf("%f\n", median(times, ROUNDS));
	return 0;
}

int main(int argc, char **argv)
{
	struct trapline_window_opts opts = { .size = sizeof(opts),
					     .flags = TRAPLINE_WINDOW_GENERAL };
	struct trapline_window_opts with_block = opts;
	struct trapline_window_opts with_access = opts;
	double times[5][ROUNDS];
	uint64_t insns = 1;

	if (argc > 1 && !strcmp(argv[1], "--native"))
		return print_native();
	with_block.on_block = on_block;
	with_access.on_access = on_access;
	for (int i = 0; i < ROUNDS; i++) {
		times[1][i] = window_ns(&opts, &insns);
		times[0][i] = native_ns();
		times[2][i] = window_ns(&with_block, &insns);
		times[3][i] = window_ns(&with_access, &insns);
		times[4][i] = new_ns();
	}
	const double n = (double)insns;
	const double floor = median(times[0], ROUNDS) / n;
	print("native", floor, floor);
	print("window", median(times[1], ROUNDS) / n, floor);
	print("window, callback for each block", median(times[2], ROUNDS) / n, floor);
	print("window, callback for each access", median(times[3], ROUNDS) / n, floor);
	print("window, a new instruction", median(times[4], ROUNDS), floor);
	const double peer = valgrind_ns(argv[0]);
	if (peer > 0)
		print("valgrind --tool=none", peer / n, floor);
	return 0;
}
