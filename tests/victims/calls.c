/* SPDX-License-Identifier: MIT */
/*
 * calls.c - calls functions of many shapes, round after round, until killed or for argv[1] rounds.
 *
 * argv[2] is the pause between rounds in microseconds (default 5000). Each round calls each function
 * so often as its comment says; a second thread calls lookup() once a round.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE static __attribute__((noipa))
#define KEEP __asm__ volatile("" ::: "memory")

enum color {
	RED = 1,
	GREEN = 2,
	BLUE = 7
};
struct point {
	int x;
	int y;
};
struct range {
	long first;
	long last;
};
struct big {
	long words[5];
};
struct table {
	long size;
	const char *name;
};

struct table things = { 3, "things" };
unsigned long rounds_done;

/* Twice a round by main, once by the worker: 10 + n. */
NOINLINE int lookup(struct table *t, const char *key, int n)
{
	KEEP;
	return (int)t->size + n + (key[0] == 'z') + 7;
}

/* Once: a color from a color. */
NOINLINE enum color next_color(enum color c)
{
	KEEP;
	return c == RED ? GREEN : BLUE;
}

/* Once: text out of text. */
NOINLINE const char *greeting(const char *name)
{
	KEEP;
	return name[0] == 'w' ? "hello" : "?";
}

/* Once: structures in registers. */
NOINLINE struct point turn(struct point p, struct range r)
{
	KEEP;
	return (struct point){ p.y + (int)r.first, p.x };
}

/* Once: a result in memory moves the arguments. */
NOINLINE struct big fill(long with, short small)
{
	KEEP;
	return (struct big){ { with, small, 3, 4, 5 } };
}

/* Once: two on the stack. */
NOINLINE long eight(long a, long b, long c, long d, long e, long f, long g, signed char h)
{
	KEEP;
	return a + b + c + d + e + f + g + h;
}

/* Once: the numbers between are elsewhere. */
NOINLINE double scale(double x, int by, float y, unsigned char flag)
{
	KEEP;
	return x * by + (double)y + flag;
}

/* Once, and calls itself 4 times. */
NOINLINE unsigned int depth(unsigned int n)
{
	unsigned int below = n ? depth(n - 1) : 0;

	KEEP;
	return below + 1;
}

/* Once: ends with a jump to lookup(), so that both return to one place, at once. */
NOINLINE __attribute__((optimize("optimize-sibling-calls"))) int last_act(const char *key)
{
	KEEP;
	return lookup(&things, key, 5);
}

static jmp_buf out;

/* Once: never returns. */
NOINLINE void leap(int n)
{
	KEEP;
	longjmp(out, n);
}

/* Once: takes a millisecond at least. */
NOINLINE void nap(useconds_t us)
{
	usleep(us);
}

/* Twice, in two functions, and nowhere a function by itself. */
static inline __attribute__((always_inline)) long add_inlined(long a, long b)
{
	KEEP;
	return a * 3 + b;
}

NOINLINE long first_user(long a)
{
	long sum = a;

	KEEP;
	sum += add_inlined(a, 4);
	KEEP;
	return sum;
}

NOINLINE long second_user(long a)
{
	long sum = a * 2;

	KEEP;
	sum += add_inlined(a, 9);
	KEEP;
	return sum;
}

static size_t (*volatile length_of)(const char *) = strlen;

static void *worker(void *pause)
{
	pthread_setname_np(pthread_self(), "worker");
	for (;;) {
		lookup(&things, "worker", 2);
		usleep(*(useconds_t *)pause);
	}
	return NULL;
}

static void round_of_calls(unsigned long n)
{
	char key[16];

	snprintf(key, sizeof(key), "key%lu", n % 10);
	lookup(&things, key, 1);
	next_color(RED);
	greeting("world");
	turn((struct point){ 1, -2 }, (struct range){ 10, 20 });
	fill(11, -3);
	eight(1, 2, 3, 4, 5, 6, 7, -8);
	scale(1.5, 3, 2.5f, 9);
	depth(4);
	last_act("zebra");
	if (!setjmp(out))
		leap(1);
	nap(1000);
	rounds_done += (unsigned long)first_user(1); /* a line to break on */
	rounds_done += (unsigned long)second_user(2);
	rounds_done += length_of(key); /* for the C library's own */
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	useconds_t pause = argc > 2 ? (useconds_t)strtoul(argv[2], NULL, 10) : 5000;
	pthread_t thread;

	pthread_create(&thread, NULL, worker, &pause);
	for (unsigned long n = 0; !rounds || n < rounds; n++) {
		round_of_calls(n);
		if (pause)
			usleep(pause);
	}
	return 0;
}
