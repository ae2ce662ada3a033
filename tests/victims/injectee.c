/* SPDX-License-Identifier: MIT */
/*
 * injectee.c - threads that allocate, compute in vector registers, sleep and wait in system calls,
 * and check that nothing of theirs changes. With OPENS_FILES in its environment one opens files. Prints "ok ROUNDS" at SIGTERM, or what went wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_int stop;
static atomic_ulong rounds;
static atomic_int traps;

static void on_term(int number)
{
	stop = 1;
}

static void on_trap(int number)
{
	traps++;
}

static void fail(const char *what)
{
	printf("wrong: %s (%s)\n", what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

static void *allocate(void *arg)
{
	while (!stop) {
		char *p[32];
		for (int i = 0; i < 32; i++) {
			p[i] = malloc((size_t)(i + 1) * 100);
			memset(p[i], i, (size_t)(i + 1) * 100);
		}
		for (int i = 0; i < 32; i++) {
			if (p[i][i] != i)
				fail("memory");
			free(p[i]);
		}
		rounds++;
	}
	return NULL;
}

static void *compute(void *arg)
{
	while (!stop) {
		double x = 1.0;
		double y = 1.0;
		errno = EDOM;
		for (int i = 0; i < 2000; i++) {
			x = x * 1.000001 + 0.5;
			y = y * 1.000001 + 0.5;
		}
		if (x != y)
			fail("vector registers");
		if (errno != EDOM)
			fail("errno");
		rounds++;
	}
	return NULL;
}

static void *wait_in_calls(void *arg)
{
	while (!stop) {
		struct timespec pause = { 0, 3000000 };
		struct timespec before;
		struct timespec after;

		clock_gettime(CLOCK_MONOTONIC, &before);
		if (nanosleep(&pause, NULL))
			fail("nanosleep");
		clock_gettime(CLOCK_MONOTONIC, &after);
		if ((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec <
		    3000000)
			fail("a sleep was too short");
		if (poll(NULL, 0, 2) != 0)
			fail("poll");
		rounds++;
	}
	return NULL;
}

/* No other thread opens any: the number is always the lowest free one, which programs count on. */
static void *open_files(void *arg)
{
	const int first = open("/", O_RDONLY | O_CLOEXEC);

	close(first);
	while (!stop) {
		const int fd = open("/", O_RDONLY | O_CLOEXEC);

		if (fd != first)
			fail("the number of a descriptor");
		if (close(fd))
			fail("close");
		rounds++;
	}
	return NULL;
}

#define THREADS 7

static void *work(void *arg)
{
	void *(*const mains[THREADS])(void *) = { allocate,	 compute, wait_in_calls, allocate, compute,
						  wait_in_calls, open_files };
	const int count = getenv("OPENS_FILES") ? THREADS : THREADS - 1;
	pthread_t threads[THREADS];

	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, mains[i], NULL);
	errno = EDOM;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	if (errno != EDOM)
		fail("errno of the thread that waits");
	if (traps)
		fail("a SIGTRAP");
	printf("ok %lu\n", (unsigned long)rounds);
	fflush(stdout);
	_exit(0);
}

/* By its name nothing can be loaded while a thread is in it. */
__attribute__((noinline)) static void wait_inside_malloc(pthread_t thread)
{
	pthread_join(thread, NULL);
	__asm__ volatile("");
}

/* With "inside" the first thread can never be taken, which would be preferred else; with "ends" it ends. */
int main(int argc, char **argv)
{
	pthread_t thread;

	alarm(120); /* not left over by a test that failed */
	signal(SIGTERM, on_term);
	signal(SIGTRAP, on_trap);
	if (argc == 1)
		work(NULL);
	pthread_create(&thread, NULL, work, NULL);
	if (!strcmp(argv[1], "ends"))
		pthread_exit(NULL);
	wait_inside_malloc(thread);
	return 1;
}
