/* SPDX-License-Identifier: MIT */
/*
 * branch.c - what a branch costs while it is off and on, and what its switch costs, as JSON lines: ns
 * beside a nop and beside a flag that is loaded, and us beside what the kernel alone takes for the
 * same syncs and writes.
 *
 * Medians; all ways are measured in turns, in the same run, with a thread that runs the code.
 */
#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <trapline/code.h>

#include "median.h"

#define PASSES 100000
#define ROUNDS 101
#define FLIPS 101
#define SITES 1000
#define PAGE_BYTES 4096

static struct trapline_branch_key off_key = TRAPLINE_BRANCH_OFF;
static struct trapline_branch_key on_key = TRAPLINE_BRANCH_OFF;
static struct trapline_branch_key flip_key = TRAPLINE_BRANCH_OFF;
static int flag;
static int is_running;
static volatile uint64_t taken;

/* Little work, so that an instruction more is seen. */
#define WORK(i) __asm__ volatile("" : : "r"(i))

#define LOOP(name, body)                                \
	__attribute__((noipa)) static void name(void)   \
	{                                               \
		for (uint64_t i = 0; i < PASSES; i++) { \
			WORK(i);                        \
			body                            \
		}                                       \
	}
LOOP(loop_empty, )
LOOP(loop_nop, __asm__ volatile(".byte 0x0f, 0x1f, 0x44, 0, 0");)
LOOP(loop_flag, if (__atomic_load_n(&flag, __ATOMIC_RELAXED)) taken++;)
LOOP(loop_off, if (trapline_branch(&off_key)) taken++;)
LOOP(loop_on, if (trapline_branch(&on_key)) __asm__ volatile("");)
LOOP(loop_likely, if (trapline_branch_likely(&on_key)) __asm__ volatile("");)

static const struct {
	const char *name;
	void (*run)(void);
} loops[] = {
	{ "nothing", loop_empty }, { "nop", loop_nop }, { "flag", loop_flag },
	{ "off", loop_off },	   { "on", loop_on },	{ "on, likely", loop_likely },
};
enum {
	LOOPS = sizeof(loops) / sizeof(loops[0])
};

static void measure_passes(void)
{
	static double ns[LOOPS][ROUNDS];

	trapline_branch_enable(&on_key);
	for (int r = 0; r < ROUNDS; r++)
		for (int l = 0; l < LOOPS; l++) {
			double start = now_ns();

			loops[l].run();
			ns[l][r] = (now_ns() - start) / PASSES;
		}
	for (int l = 0; l < LOOPS; l++) {
		double middle = median(ns[l], ROUNDS);

		printf("{\"bench\":\"branch\",\"code\":\"%s\",\"ns\":%.3f,\"ns_min\":%.3f}\n",
		       loops[l].name, middle, ns[l][0]);
	}
}

/* ---- switch ---- */

#define TEN(x) x x x x x x x x x x
#define ONE_MORE                        \
	if (trapline_branch(&flip_key)) \
		n++;

__attribute__((noipa)) static int thousand(void)
{
	int n = 0;

	TEN(TEN(TEN(ONE_MORE)))
	return n;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* So that both run, and do not wait behind others; without permission as it comes. */
static void be_real_time(void)
{
	struct sched_param param = { .sched_priority = 1 };

	sched_setscheduler(0, SCHED_FIFO, &param);
}

static void *run(void *arg)
{
	pin(1);
	be_real_time();
	for (;;) {
		thousand();
		__atomic_store_n(&is_running, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static double sync_us(void)
{
	double start = now_ns();

	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
	return (now_ns() - start) / 1e3;
}

/* As many pages as the branches have, one write each, of what is there. */
static double writes_us(int fd, int pages)
{
	static uint8_t bytes[PAGE_BYTES];
	uint64_t from = (uint64_t)(uintptr_t)thousand & ~(uint64_t)(PAGE_BYTES - 1);

	if (pread(fd, bytes, sizeof(bytes), (off_t)from) != (ssize_t)sizeof(bytes))
		return -1;
	double start = now_ns();
	for (int i = 0; i < pages; i++)
		if (pwrite(fd, bytes, sizeof(bytes), (off_t)from) < 0)
			return -1;
	return (now_ns() - start) / 1e3;
}

static int flip_us(double *us)
{
	double start = now_ns();
	int err = trapline_branch_enable(&flip_key);

	*us = (now_ns() - start) / 1e3;
	return err ? err : trapline_branch_disable(&flip_key);
}

static void measure_flips(void)
{
	static double flip[FLIPS];
	static double sync[FLIPS];
	static double writes[FLIPS];
	struct trapline_code_stats before = { .size = sizeof(before) };
	struct trapline_code_stats after = before;
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	int pages = SITES * 5 / PAGE_BYTES + 1; /* no branch is longer than its instruction */

	trapline_code_stats(&before);
	for (int r = 0; r < FLIPS; r++) {
		int err = flip_us(&flip[r]);

		if (err) {
			char why[300];

			trapline_explain(err, why, sizeof(why));
			printf("{\"bench\":\"branch\",\"error\":\"%s\"}\n", why);
			return;
		}
		sync[r] = sync_us();
		writes[r] = writes_us(fd, pages);
	}
	trapline_code_stats(&after);
	double each = (double)(after.syncs - before.syncs) / FLIPS / 2;
	double one_sync = median(sync, FLIPS);
	double us = median(flip, FLIPS);
	printf("{\"bench\":\"branch flip\",\"sites\":%d,\"us\":%.1f,\"us_min\":%.1f,\"syncs\":%.1f,"
	       "\"sync_us\":%.1f,\"over_syncs_us\":%.1f,\"writes_us\":%.1f}\n",
	       SITES, us, flip[0], each, one_sync, us - each * one_sync, median(writes, FLIPS));
	close(fd);
}

int main(void)
{
	pthread_t thread;

	pin(0);
	measure_passes();
	pthread_create(&thread, NULL, run, NULL);
	while (!__atomic_load_n(&is_running, __ATOMIC_RELAXED))
		usleep(1000);
	be_real_time();
	measure_flips();
	return 0;
}
