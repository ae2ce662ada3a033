/* SPDX-License-Identifier: MIT */
/* outside_racy.c SECONDS - two races, for any C library: see test_race_outside_languages.sh. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))
#ifndef LOCK
#define LOCK()
#define UNLOCK()
#endif

struct node {
	long a, b;
};

static long shared;
static struct node *node;
static time_t end;

static int work(int n)
{
	volatile int x = 0;

	for (int i = 0; i < n; i++)
		x += i;
	return x;
}

static NOINLINE void bump(void)
{
	LOCK();
	shared++;
	UNLOCK();
}

static NOINLINE void set(struct node *n, long v)
{
	LOCK();
	n->a = v;
	UNLOCK();
}

static NOINLINE long get(struct node *n)
{
	LOCK();
	long v = n->a;
	UNLOCK();
	return v;
}

static void *run(void *arg)
{
	long sum = 0;

	while (time(NULL) < end)
		for (int i = 0; i < 200; i++) {
			bump();
			if (arg)
				set(node, i);
			else
				sum += get(node);
			work(60);
		}
	return (void *)sum;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];

	end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 2);
	node = calloc(1, sizeof(*node));
	for (long i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, run, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%ld\n", shared);
	return 0;
}
