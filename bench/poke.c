/* SPDX-License-Identifier: MIT */
/*
 * poke.c - what changing code costs, as JSON lines: us for a batch with a thread running the code,
 * and ns for a pass over an int3 that stays, beside a uprobe and a hardware breakpoint.
 *
 * Medians; the ways to stop at an instruction are measured in turns, in the same run.
 */
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/membarrier.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <trapline/code.h>

#include "median.h"

#define SITES 10000
#define APART 16
#define REPEATS 41
#define PASSES 2000
#define ROUNDS 15
#define ADDR(p) ((uint64_t)(uintptr_t)(p))

static uint8_t *code;
static struct trapline_poke_site changes[SITES];
static uint8_t variants[SITES][2][5]; /* nop, and a jump behind itself */

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* So that the runner runs and is not waiting behind others; without permission as it comes. */
static void be_real_time(void)
{
	struct sched_param param = { .sched_priority = 1 };

	sched_setscheduler(0, SCHED_FIFO, &param);
}

static int is_running;

static void *run(void *arg)
{
	pin(1);
	be_real_time();
	__atomic_store_n(&is_running, 1, __ATOMIC_RELAXED);
	for (size_t i = 0;; i = (i + 1) % SITES)
		((void (*)(void))(code + i * APART))();
	return NULL;
}

static void fill(uint8_t *image)
{
	memset(image, 0xcc, SITES * APART);
	for (size_t i = 0; i < SITES; i++) {
		memcpy(variants[i][0], "\x0f\x1f\x44\0\0", 5);
		memcpy(variants[i][1], "\xe9\0\0\0\0", 5);
		memcpy(image + i * APART, variants[i][0], 5);
		image[i * APART + 5] = 0xc3;
	}
}

/* What the kernel alone takes for one sync, with the same thread running. */
static double sync_us(void)
{
	double start = now_ns();

	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
	return (now_ns() - start) / 1e3;
}

static uint64_t count_syncs(void)
{
	struct trapline_code_stats stats = { .size = sizeof(stats) };

	trapline_code_stats(&stats);
	return stats.syncs;
}

static void measure_batches(const char *writer, uint32_t writers)
{
	static const size_t sizes[] = { 1, 10, 100, 1000, 10000 };
	TRAPLINE_OPTS(poke, opts);
	double us[REPEATS];
	double sync[REPEATS];

	opts.writers = writers;
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		for (int r = -2; r < REPEATS; r++) {
			int from = r & 1;

			for (size_t i = 0; i < sizes[s]; i++)
				changes[i] = (struct trapline_poke_site){ ADDR(code + i * APART),
									  variants[i][from],
									  variants[i][!from], 5 };
			uint64_t syncs = count_syncs();
			double start = now_ns();
			int err = trapline_poke(changes, sizes[s], &opts);
			if (err) {
				char why[300];

				trapline_explain(err, why, sizeof(why));
				printf("{\"bench\":\"poke\",\"writer\":\"%s\",\"error\":\"%s\"}\n",
				       writer, why);
				return;
			}
			if (r < 0)
				continue;
			us[r] = (now_ns() - start) / 1e3;
			sync[r] = (double)(count_syncs() - syncs) * sync_us();
		}
		/* An odd number of times: back to where it began. */
		for (size_t i = 0; i < sizes[s]; i++)
			changes[i] =
				(struct trapline_poke_site){ ADDR(code + i * APART),
							     variants[i][(REPEATS - 1) & 1 ? 0 : 1],
							     variants[i][0], 5 };
		trapline_poke(changes, sizes[s], &opts);
		double middle = median(us, REPEATS);
		printf("{\"bench\":\"poke\",\"writer\":\"%s\",\"sites\":%zu,\"us\":%.1f,"
		       "\"us_min\":%.1f,\"syncs_us\":%.1f}\n",
		       writer, sizes[s], middle, us[0], median(sync, REPEATS));
		fflush(stdout);
	}
}

/* ---- one pass ---- */

__attribute__((noipa)) static void stopped_here(void)
{
	__asm__ volatile(".byte 0x0f, 0x1f, 0x44, 0, 0");
}

__attribute__((noipa)) static void copied_here(void)
{
	__asm__ volatile("lea 8(%%rsp), %%rax" : : : "rax");
}

static double passes_ns(void (*function)(void))
{
	double start = now_ns();

	for (int i = 0; i < PASSES; i++)
		function();
	return (now_ns() - start) / PASSES;
}

static uint64_t called;

static void count(const struct trapline_trap_hit *hit)
{
	called++;
}

static double int3_ns(void (*function)(void), trapline_trap_callback callback)
{
	TRAPLINE_OPTS(traps, opts);
	uint64_t address = ADDR(function);
	struct trapline_traps *traps;

	opts.callback = callback;
	if (trapline_traps_set(&address, 1, &opts, &traps))
		return -1;
	double ns = passes_ns(function);
	trapline_traps_remove(traps);
	return ns;
}

static double int3_emulated_ns(void)
{
	return int3_ns(stopped_here, NULL);
}

static double int3_copied_ns(void)
{
	return int3_ns(copied_here, NULL);
}

static double int3_callback_ns(void)
{
	return int3_ns(stopped_here, count);
}

static double event_ns(struct perf_event_attr *attr)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, 0, -1, -1, 0);

	if (fd < 0)
		return -1;
	double ns = passes_ns(stopped_here);
	close(fd);
	return ns;
}

static double hardware_ns(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.bp_type = HW_BREAKPOINT_X,
		.bp_addr = ADDR(stopped_here),
		.bp_len = 8,
		.exclude_kernel = 1,
		.sample_period = 1,
	};

	return event_ns(&attr);
}

static void ignore(int sig)
{
}

static double hardware_sigtrap_ns(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.bp_type = HW_BREAKPOINT_X,
		.bp_addr = ADDR(stopped_here),
		.bp_len = 8,
		.exclude_kernel = 1,
		.sample_period = 1,
		.sigtrap = 1,
		.remove_on_exec = 1,
	};
	struct sigaction action = { .sa_handler = ignore };
	struct sigaction before;

	sigaction(SIGTRAP, &action, &before);
	double ns = event_ns(&attr);
	sigaction(SIGTRAP, &before, NULL);
	return ns;
}

/* Where in its file the function is. */
static uint64_t file_offset(char *path, size_t n)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	uint64_t found = 0;

	while (maps && !found && fgets(line, sizeof(line), maps)) {
		unsigned long from;
		unsigned long to;
		unsigned long offset;

		if (sscanf(line, "%lx-%lx %*s %lx", &from, &to, &offset) == 3 &&
		    ADDR(stopped_here) >= from && ADDR(stopped_here) < to)
			found = ADDR(stopped_here) - from + offset;
	}
	if (maps)
		fclose(maps);
	ssize_t length = readlink("/proc/self/exe", path, n - 1);
	path[length > 0 ? length : 0] = '\0';
	return found;
}

static double uprobe_ns(void)
{
	static char path[512];
	struct perf_event_attr attr = { .size = sizeof(attr), .sample_period = 1 };
	FILE *type = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
	int number = -1;

	if (!type || fscanf(type, "%d", &number) != 1)
		return -1;
	fclose(type);
	attr.type = (uint32_t)number;
	attr.config2 = file_offset(path, sizeof(path));
	attr.config1 = ADDR(path);
	return event_ns(&attr);
}

static void measure_passes(void)
{
	static const struct {
		const char *name;
		double (*measure)(void);
	} ways[] = {
		{ "int3, emulated", int3_emulated_ns },
		{ "int3, copy", int3_copied_ns },
		{ "int3, callback", int3_callback_ns },
		{ "uprobe, counted", uprobe_ns },
		{ "hardware, counted", hardware_ns },
		{ "hardware, sigtrap", hardware_sigtrap_ns },
	};
	enum {
		WAYS = sizeof(ways) / sizeof(ways[0])
	};
	static double ns[WAYS][ROUNDS];

	for (int r = 0; r < ROUNDS; r++)
		for (int w = 0; w < WAYS; w++)
			ns[w][r] = ways[w].measure();
	for (int w = 0; w < WAYS; w++)
		printf("{\"bench\":\"pass\",\"by\":\"%s\",\"ns\":%.0f}\n", ways[w].name,
		       median(ns[w], ROUNDS));
}

int main(void)
{
	static uint8_t image[SITES * APART];
	pthread_t thread;

	pin(0);
	measure_passes();
	fill(image);
	if (trapline_code_alloc(0, sizeof(image), (void **)&code) ||
	    trapline_code_write(code, image, sizeof(image)))
		return 1;
	uint8_t *aliased = code;
	code = mmap(NULL, sizeof(image), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	memcpy(code, image, sizeof(image));
	mprotect(code, sizeof(image), PROT_READ | PROT_EXEC);
	pthread_create(&thread, NULL, run, NULL);
	while (!__atomic_load_n(&is_running, __ATOMIC_RELAXED))
		usleep(1000);
	be_real_time();
	measure_batches("/proc/thread-self/mem", TRAPLINE_WRITE_MEM);
	measure_batches("mprotect", TRAPLINE_WRITE_MPROTECT);
	code = aliased;
	measure_batches("alias", TRAPLINE_WRITE_ALIAS);
	return 0;
}
