/* SPDX-License-Identifier: MIT */
/* folded_errors.c - errors in functions whose code is kept once, since another is equal. The argument chooses. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define APART __attribute__((noinline))

APART long first_of(const volatile long *list)
{
	return list[0] + getppid();
}

APART long head_of(const volatile long *list)
{
	return list[0] + getppid();
}

/* Its code is its own. */
APART long second_of(const volatile long *list)
{
	return list[1] + getppid();
}

/* By intention. */
long next_to_first(const volatile long *list) __attribute__((alias("second_of")));

APART void count_reads(volatile long *n)
{
	(*n)++;
}

APART void count_writes(volatile long *n)
{
	(*n)++;
}

static long counter;

static void *count(void *unused)
{
	for (int i = 0; i < 20000000; i++) {
		count_reads(&counter);
		count_writes(&counter);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc > 1 && argv[1][0] == 'r') {
		if (pthread_create(&thread, NULL, count, NULL))
			return 2;
		count(NULL);
		return pthread_join(thread, NULL);
	}
	volatile long *list = malloc(8 * sizeof(*list));
	volatile long *other = malloc(8 * sizeof(*other));
	long sum = 0;
	if (argc > 1) {
		free((void *)list);
		free((void *)other);
	}
	for (int i = 0; i < (argc > 1 ? 1 : 30); i++) {
		if (argc == 1)
			usleep(10000);
		sum += first_of(list) + head_of(list) + second_of(other) + next_to_first(other);
	}
	return sum == 0;
}
