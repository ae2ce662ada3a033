/* SPDX-License-Identifier: MIT */
/*
 * counter.c - two threads add to one variable, slowly, until killed or for argv[1] rounds.
 *
 * argv[2] is the pause in microseconds (default 20000). bump_main() and bump_worker() each add 1
 * per round, under a lock, so that the values are a sequence without gaps.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

unsigned long shared_counter;
static unsigned long private_counter;
__thread long thread_counter;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long rounds;
static unsigned int pause_us = 20000;

__attribute__((noinline)) static void bump_main(void)
{
	pthread_mutex_lock(&lock);
	shared_counter++;
	pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) static void bump_worker(void)
{
	pthread_mutex_lock(&lock);
	shared_counter++;
	private_counter++;
	pthread_mutex_unlock(&lock);
}

static void loop(void (*bump)(void))
{
	for (unsigned long i = 0; !rounds || i < rounds; i++) {
		bump();
		thread_counter++;
		if (pause_us)
			usleep(pause_us);
	}
}

static void *worker(void *arg)
{
	(void)arg;
	pthread_setname_np(pthread_self(), "worker");
	loop(bump_worker);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc > 1)
		rounds = strtoul(argv[1], NULL, 10);
	if (argc > 2)
		pause_us = (unsigned int)strtoul(argv[2], NULL, 10);
	/* Where it is, for tests that watch an address. */
	printf("%p\n", (void *)&shared_counter);
	fflush(stdout);
	if (pthread_create(&thread, NULL, worker, NULL))
		return 1;
	loop(bump_main);
	pthread_join(thread, NULL);
	return argc > 3 ? atoi(argv[3]) : 0;
}
