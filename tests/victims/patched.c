/* SPDX-License-Identifier: MIT */
/*
 * patched.c [THREADS [BLOCKED]] - functions to be replaced; another of the same name is in
 * patched_more.c.
 *
 * Each thread calls them all the time. The first one prints the results five times a second. With a
 * second argument a thread sleeps for ever inside sleeper().
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "patched.h"

volatile int counter = 7;
static volatile int hidden = 5;
__thread int of_thread = 3;
static atomic_ulong calls;

NOINLINE int answer(int x)
{
	return x + counter;
}

/* Both of these change together, or neither. */
NOINLINE int first_half(void)
{
	return counter;
}

NOINLINE int second_half(void)
{
	return counter;
}

static NOINLINE int helper(int x)
{
	return x * 2 + hidden;
}

/* Small enough to be inlined, and with a copy of its own. */
static inline __attribute__((always_inline)) int twice_inline(int x)
{
	return x * hidden;
}

int twice(int x)
{
	return twice_inline(x);
}

NOINLINE int sleeper(int x)
{
	for (;;)
		pause();
	return x;
}

static int choose_this(int x)
{
	return x + 40;
}

static int (*choose(void))(int)
{
	return choose_this;
}

int chosen(int x) __attribute__((ifunc("choose")));

static void *act(void *arg)
{
	for (;;) {
		calls += (unsigned long)answer(1);
		if (!arg)
			usleep(1000);
	}
	return NULL;
}

static void *sleep_inside(void *arg)
{
	sleeper(1);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 1); i++)
		pthread_create(&thread, NULL, act, i ? argv : NULL);
	if (argc > 2)
		pthread_create(&thread, NULL, sleep_inside, NULL);
	for (;;) {
		printf("%d %d %d %d %d\n", answer(1), helper(2), more(2),
		       twice_inline(3) + twice(0), first_half() - second_half());
		fflush(stdout);
		usleep(200000 + chosen(2) + of_thread);
	}
}
