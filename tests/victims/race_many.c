/* SPDX-License-Identifier: MIT */
/*
 * race_many.c - one cause, many places: an object without a lock, that two threads access in eight
 * functions each. Another object races in the same threads.
 */
#include <pthread.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))
#define BOTH(n)                                                                                    \
	static NOINLINE void put_##n(void)                                                         \
	{                                                                                          \
		object[n] = object[n] + 1;                                                         \
	}                                                                                          \
	static NOINLINE void get_##n(void)                                                         \
	{                                                                                          \
		object[n] = object[n] - 1;                                                         \
	}

static volatile long object[8];
static volatile long other;

BOTH(0)
BOTH(1)
BOTH(2)
BOTH(3)
BOTH(4)
BOTH(5)
BOTH(6)
BOTH(7)

static void sleep_us(long us)
{
	struct timespec ts = { 0, us * 1000 };

	nanosleep(&ts, NULL);
}

static void *consumer(void *arg)
{
	static void (*const all[])(void) = { get_0, get_1, get_2, get_3,
					     get_4, get_5, get_6, get_7 };

	for (int i = 0; i < 800; i++) {
		all[i % 8]();
		other = other + 1;
		sleep_us(50);
	}
	return arg;
}

int main(void)
{
	static void (*const all[])(void) = { put_0, put_1, put_2, put_3,
					     put_4, put_5, put_6, put_7 };
	pthread_t thread;

	pthread_create(&thread, NULL, consumer, NULL);
	for (int i = 0; i < 800; i++) {
		all[i % 8]();
		other = other + 1;
		sleep_us(50);
	}
	pthread_join(thread, NULL);
	return 0;
}
