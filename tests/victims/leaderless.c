/* SPDX-License-Identifier: MIT */
/*
 * leaderless.c - a process that goes on after its first thread has ended: another one counts in
 * `counted` and calls tick(), which returns what it is given, doubled.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

unsigned long counted;

unsigned long tick(unsigned long number);

__attribute__((noinline)) unsigned long tick(unsigned long number)
{
	__asm__ volatile("" ::: "memory");
	return 2 * number;
}

static void *count(void *arg)
{
	for (;;) {
		counted++;
		if (tick(counted) != 2 * counted)
			return NULL;
		usleep(500);
	}
}

int main(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, count, NULL))
		return 1;
	pthread_exit(NULL);
}
