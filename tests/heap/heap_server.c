// SPDX-License-Identifier: MIT
/*
 * heap_server.c - a program that runs until SIGTERM, for tests that come to it and go. It allocates in
 * threads, in threads with the least stack, in signal handlers and in forked children; it takes its own
 * SIGSEGV; and it keeps blocks until SIGUSR1. What it did not find as it must be ends it with status 9.
 *
 *	heap_server [bad]	bad: it reads a freed block each time
 *	heap_server crowded	all memory that a jump of libc could reach is in use, but for what is near
 */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap_cases.h"

#define KEPT 4000

static volatile sig_atomic_t does_end;
static volatile sig_atomic_t does_free;
static volatile sig_atomic_t does_fork;
static volatile sig_atomic_t beats;
static sigjmp_buf from_fault;
static char *closed_page;
static unsigned char *kept[KEPT];

void heap_require(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "heap_server: it does not hold: %s\n", what);
	_exit(9);
}

static void on_signal(int signal)
{
	if (signal == SIGUSR1)
		does_free = 1;
	else if (signal == SIGUSR2)
		does_fork = 1;
	else
		does_end = 1;
}

/* In a thread that does nothing else, so that no allocator is interrupted. */
static void on_alarm(int signal)
{
	char *p = malloc(100);

	(void)signal;
	memset(p, 'a', 100);
	free(hide(p));
	beats++;
}

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(from_fault, 1);
}

static __attribute__((noinline)) void use(size_t n)
{
	unsigned char *p = malloc(n);
	unsigned char *q = calloc(1, n);

	memset(p, (int)n, n);
	p = realloc(p, 2 * n);
	for (size_t i = 0; i < n; i++)
		heap_require(p[i] == (unsigned char)n && !q[i], "a block is as it was left");
	free(hide(p));
	free(hide(q));
}

static __attribute__((noinline)) void read_freed(void)
{
	char *p = malloc(48);

	*p = 1;
	free(hide(p));
	get(p);
}

static void *run_worker(void *arg)
{
	for (size_t i = 0; !does_end; i++) {
		use(1 + i * 7 % 300);
		usleep(300);
	}
	return arg;
}

static void *run_request(void *arg)
{
	use((size_t)arg);
	return NULL;
}

static void *run_handlers(void *arg)
{
	const struct itimerval often = { { 0, 3000 }, { 0, 3000 } };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while (!does_end)
		pause();
	/* The end of a thread frees what it has, and the handler would interrupt that. */
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	return arg;
}

static void start_request(size_t n)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN);
	heap_require(!pthread_create(&thread, &attr, run_request, (void *)n), "a thread is made");
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
}

static __attribute__((noinline)) void read_freed_in_child(void)
{
	for (int i = 0; i < 300; i++) {
		char *p = malloc(56);

		*p = 1;
		free(hide(p));
		get(p);
	}
}

static pid_t workers[4];

/* As servers have them: they live longer than the search. SIGUSR2 says that it is time for them. */
static void fork_worker(size_t i, int is_bad)
{
	pid_t *worker = &workers[i % 4];

	if (*worker)
		return;
	*worker = fork();
	if (*worker)
		return;
	for (size_t n = 0; n < 60000 && !does_end; n++) {
		use(1 + n * 7 % 300);
		if (is_bad && n % 100 == 0)
			read_freed_in_child();
		usleep(700);
	}
	for (int k = 0; k < KEPT; k++)
		free(hide(kept[k]));
	_exit(0);
}

static void wait_for_workers(void)
{
	for (int i = 0; i < 4; i++) {
		int status = 0;

		if (workers[i] > 0)
			kill(workers[i], SIGTERM);
		while (workers[i] && waitpid(workers[i], &status, 0) < 0 && errno == EINTR)
			;
		heap_require(workers[i] >= 0 && status == 0, "a worker does its work");
	}
}

static void fork_once(void)
{
	int status = -1;
	pid_t child = fork();

	if (!child) {
		for (int i = 0; i < KEPT; i++)
			free(hide(kept[i]));
		use(77);
		_exit(0);
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	heap_require(child > 0 && status == 0, "a forked child does its work");
}

/* All the time, so that a search begins and ends in the middle. */
static void *run_actions(void *arg)
{
	struct sigaction action = { .sa_handler = on_fault };
	struct sigaction old;

	while (!does_end) {
		action.sa_handler = on_fault;
		sigaction(SIGBUS, &action, NULL);
		sigaction(SIGBUS, NULL, &old);
		heap_require(old.sa_handler == on_fault, "its handler for SIGBUS stays");
		action.sa_handler = SIG_DFL;
		sigaction(SIGBUS, &action, &old);
		heap_require(old.sa_handler == on_fault, "and is the old one");
		sigaction(SIGBUS, NULL, &old);
		heap_require(old.sa_handler == SIG_DFL, "then it has the default action");
		usleep(20);
	}
	return arg;
}

static void fault_once(void)
{
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };
	struct sigaction old;
	volatile int seen = 0;

	for (int i = 0; i < 100; i++) {
		sigaction(SIGSEGV, &action, NULL);
		sigaction(SIGSEGV, NULL, &old);
		heap_require(old.sa_handler == on_fault, "its handler stays");
	}
	if (sigsetjmp(from_fault, 1))
		seen = 1;
	else
		get(closed_page);
	heap_require(seen, "a fault of its own comes to its handler");
	sigaction(SIGSEGV, NULL, &old);
	heap_require(old.sa_handler == on_fault, "it reads its own handler back");
}

static void keep(size_t i)
{
	size_t at = i % KEPT;

	if (does_free) {
		for (int k = 0; k < KEPT; k++) {
			free(hide(kept[k]));
			kept[k] = NULL;
		}
		return;
	}
	heap_require(!kept[at] || kept[at][20] == (unsigned char)at, "a block is kept");
	free(hide(kept[at]));
	kept[at] = malloc(40);
	memset(kept[at], (int)at, 40);
}

#define REACH ((uintptr_t)1 << 31)
#define NEAR ((uintptr_t)64 << 20)

static uintptr_t between(uintptr_t at, uintptr_t low, uintptr_t high)
{
	return at < low ? low : at > high ? high : at;
}

/* The part of a gap that is within [low, high). */
static void fill_gap(uintptr_t start, uintptr_t end, uintptr_t low, uintptr_t high)
{
	start = between(start, low, high);
	end = between(end, low, high);
	if (start < end)
		mmap((void *)start, end - start, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
}

/* Where the jump of a function of small instructions can lead at all: it has no other way. */
static uintptr_t only_way(const void *function)
{
	const unsigned char *bytes = function;
	int32_t high = (int32_t)((uint32_t)bytes[3] << 16 | (uint32_t)bytes[4] << 24);

	return (uintptr_t)function + (uintptr_t)(intptr_t)high;
}

static void fill_around(uintptr_t middle)
{
	uintptr_t way = only_way((const void *)(uintptr_t)malloc_usable_size);

	FILE *f = fopen("/proc/self/maps", "r");
	uintptr_t last = 4096;
	uintptr_t start;
	uintptr_t end;
	char line[512];

	middle &= ~(uintptr_t)4095;
	way &= ~(uintptr_t)4095;
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		fill_gap(last, start, middle - REACH, middle - NEAR);
		fill_gap(last, start, middle + NEAR, way - NEAR / 8);
		fill_gap(last, start, way + NEAR / 8, middle + REACH);
		last = end;
	}
	if (f)
		fclose(f);
}

int main(int argc, char **argv)
{
	pthread_t threads[4];
	sigset_t set;
	int has_workers = argc > 1 && strstr(argv[1], "workers");
	int is_bad = argc > 1 && strstr(argv[1], "bad");

	(void)argv;
	signal(SIGUSR1, on_signal);
	signal(SIGUSR2, on_signal);
	signal(SIGTERM, on_signal);
	signal(SIGALRM, on_alarm);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (argc > 1 && strstr(argv[1], "crowded"))
		fill_around((uintptr_t)realloc);
	closed_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_create(&threads[0], NULL, run_worker, NULL);
	pthread_create(&threads[1], NULL, run_worker, NULL);
	pthread_create(&threads[2], NULL, run_handlers, NULL);
	pthread_create(&threads[3], NULL, run_actions, NULL);
	puts("runs");
	fflush(stdout);
	for (size_t i = 0; !does_end; i++) {
		keep(i);
		if (is_bad)
			read_freed();
		if (i % 16 == 0)
			start_request(1 + i % 500);
		if (i % 64 == 0)
			fork_once();
		if (has_workers && does_fork && i % 64 == 63)
			fork_worker(i / 64, is_bad);
		if (i % 32 == 0)
			fault_once();
		usleep(500);
	}
	wait_for_workers();
	pthread_kill(threads[2], SIGALRM);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	puts("fine");
	return 0;
}
