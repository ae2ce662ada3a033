/* SPDX-License-Identifier: MIT */
/*
 * race_length.c MODE - programs that do not end by themselves: `endless`; `endless_once`, whose race is
 * at the beginning alone; `endless_right`. `ends` works for a second and prints so at its end.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile long level; /* volatile: its accesses stay */
static long rounds;
static int is_ending;

static void sleep_us(long us)
{
	struct timespec ts = { 0, us * 1000 };

	nanosleep(&ts, NULL);
}

static NOINLINE void level_store(void)
{
	level = level + 1;
}

static NOINLINE void round_count(void)
{
	pthread_mutex_lock(&lock);
	rounds++;
	pthread_mutex_unlock(&lock);
}

static void *race_on(void *arg)
{
	for (;;) {
		level_store();
		sleep_us(1000);
	}
	return arg;
}

static void *go_on(void *arg)
{
	for (long n = 0; !is_ending || n < 400; n++) {
		round_count();
		sleep_us(2000);
	}
	return arg;
}

static void *store_once(void *arg)
{
	level_store();
	return go_on(arg);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int is_racy = !strcmp(mode, "endless");
	int is_once = !strcmp(mode, "endless_once");
	pthread_t thread;

	is_ending = !strcmp(mode, "ends");
	pthread_create(&thread, NULL, is_racy ? race_on : is_once ? store_once : go_on, NULL);
	if (is_once) {
		sleep_us(500);
		level_store();
	}
	is_racy ? race_on(NULL) : go_on(NULL);
	pthread_join(thread, NULL);
	puts("the end");
	return 0;
}
