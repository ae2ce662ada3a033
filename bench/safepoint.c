/* SPDX-License-Identifier: MIT */
/*
 * safepoint.c - what a safepoint costs, as JSON lines: ns for a pass while nothing is wanted, and us
 * until all threads have stopped, for each back end beside a plain flag, mprotect() and tgkill().
 *
 * The peers wait and wake in the same way as the library does. All are measured in turns, in one
 * process and with the same threads; medians.
 *
 * Usage: bench_safepoint [STOPS]
 */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <trapline/safepoint.h>

#include "median.h"

#define THREADS_MAX 64
#define PASSES 2000000
#define ROUNDS 21
#define STOPS_MAX 1001
#define SPINS 200
#define PEER_SIGNAL (SIGRTMIN + 6)

enum way {
	WAY_FLAG,
	WAY_MPROTECT,
	WAY_TGKILL,
	WAY_POLL,
	WAY_POKE,
	WAY_POKE_INT3,
	WAY_SIGNAL,
	WAY_WATCH,
	WAYS,
	WAY_NONE, /* loops without any, or with a nop */
	WAY_NOP,
	WAY_QUIT,
};

static const char *const names[] = { "plain flag", "mprotect",	     "tgkill", "poll",
				     "poke",	   "poke with int3", "signal", "watch",
				     "",	   "nothing",	     "nop" };

struct worker {
	pthread_t thread;
	_Atomic uint64_t count __attribute__((aligned(64)));
	_Atomic uint32_t way;
	pid_t tid;
};

static struct worker workers[THREADS_MAX];
static struct trapline_safepoint *domains[WAYS];
static _Atomic uint32_t wanted_way;
static _Atomic int is_turning; /* each worker lets the others run */
static volatile uint64_t watched_word;

/* ---- the peers ---- */

static uint32_t flag;
static uint32_t gate;
static int32_t missing;
static uint32_t is_sleeping;
static uint8_t *page;

static void futex(void *word, int operation, uint32_t value)
{
	syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void peer_wait(void)
{
	uint32_t value = __atomic_load_n(&gate, __ATOMIC_SEQ_CST);

	if (!(value & 1))
		return;
	if (!__atomic_sub_fetch(&missing, 1, __ATOMIC_SEQ_CST) &&
	    __atomic_load_n(&is_sleeping, __ATOMIC_SEQ_CST))
		futex(&missing, FUTEX_WAKE, 1);
	while (__atomic_load_n(&gate, __ATOMIC_SEQ_CST) == value)
		futex(&gate, FUTEX_WAIT, value);
}

static void on_peer_signal(int number)
{
	peer_wait();
}

static void peer_stop(enum way way, int n)
{
	int32_t now;

	__atomic_store_n(&missing, n, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&gate, 1, __ATOMIC_SEQ_CST);
	if (way == WAY_FLAG)
		__atomic_store_n(&flag, 1, __ATOMIC_SEQ_CST);
	else if (way == WAY_MPROTECT)
		mprotect(page, 4096, PROT_NONE);
	else
		for (int i = 0; i < n; i++)
			syscall(SYS_tgkill, getpid(), workers[i].tid, PEER_SIGNAL);
	for (int i = 0; i < SPINS && __atomic_load_n(&missing, __ATOMIC_SEQ_CST); i++)
		__builtin_ia32_pause();
	__atomic_store_n(&is_sleeping, 1, __ATOMIC_SEQ_CST);
	while ((now = __atomic_load_n(&missing, __ATOMIC_SEQ_CST)))
		futex(&missing, FUTEX_WAIT, (uint32_t)now);
	__atomic_store_n(&is_sleeping, 0, __ATOMIC_SEQ_CST);
}

static void peer_resume(enum way way)
{
	if (way == WAY_FLAG)
		__atomic_store_n(&flag, 0, __ATOMIC_SEQ_CST);
	else if (way == WAY_MPROTECT)
		mprotect(page, 4096, PROT_READ);
	__atomic_add_fetch(&gate, 1, __ATOMIC_SEQ_CST);
	futex(&gate, FUTEX_WAKE, INT32_MAX);
}

/* ---- loops ---- */

/* 16 additions of which four depend on each other. */
#define WORK                                                               \
	__asm__ volatile("add $1, %0; add $1, %1; add $1, %2; add $1, %3;" \
			 "add $1, %0; add $1, %1; add $1, %2; add $1, %3;" \
			 "add $1, %0; add $1, %1; add $1, %2; add $1, %3;" \
			 "add $1, %0; add $1, %1; add $1, %2; add $1, %3;" \
			 : "+r"(a), "+r"(b), "+r"(c), "+r"(d))

#define LOOP(name, safepoint)                                               \
	static __attribute__((noinline, aligned(64))) void name(uint64_t n) \
	{                                                                   \
		uint64_t a = 0;                                             \
		uint64_t b = 0;                                             \
		uint64_t c = 0;                                             \
		uint64_t d = 0;                                             \
                                                                            \
		for (uint64_t i = 0; i < n; i++) {                          \
			WORK;                                               \
			safepoint;                                          \
		}                                                           \
	}

LOOP(pass_nothing, )
LOOP(pass_nop, __asm__ volatile(".byte 0x0f, 0x1f, 0x44, 0, 0"))
LOOP(pass_flag, if (__builtin_expect(__atomic_load_n(&flag, __ATOMIC_RELAXED), 0)) peer_wait())
LOOP(pass_page, (void)*(volatile uint8_t *)page)
LOOP(pass_poll, TRAPLINE_SAFEPOINT_POLL())
LOOP(pass_poke, TRAPLINE_SAFEPOINT_POKE())
LOOP(pass_word, (void)watched_word)

static void pass(enum way way, uint64_t n)
{
	static void (*const loops[])(uint64_t) = {
		pass_flag,    pass_page, pass_nothing, pass_poll,    pass_poke, pass_poke,
		pass_nothing, pass_word, NULL,	       pass_nothing, pass_nop,
	};

	loops[way](n);
}

/* ---- measuring ---- */

/* The workers share one processor, and no other program gets it; without permission as it comes. */
static void pin(int cpu, int priority)
{
	struct sched_param param = { .sched_priority = priority };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	sched_setscheduler(0, SCHED_FIFO, &param);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	pin(1, 1);
	w->tid = (pid_t)syscall(SYS_gettid);
	for (;;) {
		uint32_t way = wanted_way;

		if (way == WAY_QUIT)
			return NULL;
		if (way < WAYS && domains[way])
			trapline_safepoint_register(domains[way], NULL);
		w->way = way;
		while (wanted_way == way) {
			pass((enum way)way, 64);
			w->count++;
			if (is_turning)
				sched_yield();
		}
		trapline_safepoint_unregister();
	}
}

static void set_way(enum way way, int n)
{
	wanted_way = way;
	is_turning = 1;
	for (int i = 0; i < n; i++)
		while (workers[i].way != way)
			sched_yield();
}

static void wait_for_progress(int n)
{
	is_turning = 1;
	for (int i = 0; i < n; i++) {
		uint64_t before = workers[i].count;

		while (workers[i].count == before)
			sched_yield();
	}
	is_turning = 0;
}

/* us. Negative: it failed. */
static double stop_once(enum way way, int n)
{
	double start = now_ns();

	if (domains[way]) {
		if (trapline_safepoint_stop(domains[way], 60000, NULL, NULL))
			return -1;
	} else {
		peer_stop(way, n);
	}
	double took = now_ns() - start;

	if (domains[way])
		trapline_safepoint_resume(domains[way]);
	else
		peer_resume(way);
	return took / 1000;
}

static void measure_stops(int n, int stops)
{
	static double us[WAYS][STOPS_MAX];
	static double calls[WAYS][STOPS_MAX];

	for (int s = 0; s < stops; s++) {
		for (int way = 0; way < WAYS; way++) {
			if (way >= WAY_POLL && !domains[way])
				continue;
			set_way((enum way)way, n);
			/* The first one pays for what is done once. */
			for (int i = 0; i < 2; i++) {
				wait_for_progress(n);
				double start = now_ns();
				us[way][s] = stop_once((enum way)way, n);
				calls[way][s] = (now_ns() - start) / 1000;
			}
		}
	}
	for (int way = 0; way < WAYS; way++) {
		if (way >= WAY_POLL && !domains[way])
			continue;
		double stop = median(us[way], stops);

		printf("{\"bench\": \"safepoint\", \"threads\": %d, \"way\": \"%s\", \"stop_us\": %.2f, "
		       "\"p90_us\": %.2f, \"stop_and_resume_us\": %.2f, \"stops\": %d}\n",
		       n, names[way], stop, us[way][stops * 9 / 10], median(calls[way], stops),
		       stops);
		fflush(stdout);
	}
}

static void measure_passes(void)
{
	static const enum way ways[] = { WAY_NONE, WAY_NOP,  WAY_FLAG, WAY_MPROTECT,
					 WAY_POLL, WAY_POKE, WAY_WATCH };
	enum {
		N = sizeof(ways) / sizeof(ways[0])
	};
	static double ns[N][ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		for (int w = 0; w < N; w++) {
			double start = now_ns();

			pass(ways[w], PASSES);
			ns[w][r] = (now_ns() - start) / PASSES;
		}
	}
	double nothing = median(ns[0], ROUNDS);
	for (int w = 0; w < N; w++)
		printf("{\"bench\": \"safepoint\", \"pass\": \"%s\", \"ns\": %.3f, \"over_nothing_ns\": "
		       "%.3f}\n",
		       names[ways[w]], median(ns[w], ROUNDS), median(ns[w], ROUNDS) - nothing);
}

static void open_domain(enum way way, uint32_t backend, uint32_t flags)
{
	TRAPLINE_OPTS(safepoint, opts);

	opts.backend = backend;
	opts.flags = flags;
	opts.signal = backend == TRAPLINE_SAFEPOINT_BY_SIGNAL ? SIGRTMIN + 7 : 0;
	opts.address = backend == TRAPLINE_SAFEPOINT_BY_WATCH ? (uint64_t)(uintptr_t)&watched_word :
								0;
	opts.length = opts.address ? sizeof(watched_word) : 0;
	int err = trapline_safepoint_open(&opts, &domains[way]);
	if (err) {
		char why[300];

		trapline_explain(err, why, sizeof(why));
		printf("{\"bench\": \"safepoint\", \"way\": \"%s\", \"skipped\": \"%s\"}\n",
		       names[way], why);
	}
}

int main(int argc, char **argv)
{
	static const int counts[] = { 1, 8, THREADS_MAX };
	struct sigaction action = { .sa_handler = on_peer_signal, .sa_flags = SA_RESTART };
	int stops = argc > 1 ? atoi(argv[1]) : 101;

	if (stops < 1 || stops > STOPS_MAX) {
		fprintf(stderr, "invalid STOPS '%s': expected 1 to %d\n", argv[1], STOPS_MAX);
		return 2;
	}
	pin(0, 2);
	page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(PEER_SIGNAL, &action, NULL);
	measure_passes();
	open_domain(WAY_POLL, TRAPLINE_SAFEPOINT_BY_POLL, 0);
	open_domain(WAY_POKE, TRAPLINE_SAFEPOINT_BY_POKE, 0);
	open_domain(WAY_POKE_INT3, TRAPLINE_SAFEPOINT_BY_POKE, TRAPLINE_SAFEPOINT_INT3);
	open_domain(WAY_SIGNAL, TRAPLINE_SAFEPOINT_BY_SIGNAL, 0);
	open_domain(WAY_WATCH, TRAPLINE_SAFEPOINT_BY_WATCH, 0);
	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		wanted_way = WAY_FLAG;
		for (int i = 0; i < counts[c]; i++)
			pthread_create(&workers[i].thread, NULL, work, &workers[i]);
		measure_stops(counts[c], stops);
		wanted_way = WAY_QUIT;
		is_turning = 1;
		for (int i = 0; i < counts[c]; i++)
			pthread_join(workers[i].thread, NULL);
		memset(workers, 0, sizeof(workers));
	}
	return 0;
}
