/* SPDX-License-Identifier: MIT */
/*
 * frames.c - functions with variables on the stack, and the number of writes to them.
 *
 *   frames MODE ROUNDS	prints `ready`, runs the rounds, and prints `writes N`
 *
 * MODE is one of
 *	plain, recursion, inlined, block, jump	variables of functions
 *	threads		the same as plain, in two threads
 *	exit		threads end in the function, one after the other on the same stack
 *	objects		objects are made, written to at once, and freed
 *
 * Each round lasts some ms, and what other functions write to the same stack is 0x5555.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int parse_line(int n);
int descend(int depth);
int with_copy(int n);
int in_block(int n);
int left_by_jump(int n);
int in_register(int n);
int left_by_exit(int n);

struct thing {
	long unused[3];
	volatile int count;
};

void thing_begin(struct thing *t);
struct thing *thing_make(void);
void thing_end(struct thing *t);
void bump(volatile int *to);
void overwrite(void);

static __thread volatile unsigned long writes; /* of this thread, to the variable of the mode */
volatile unsigned long place;		       /* of the variable in the newest frame */
volatile unsigned long places;		       /* how many there were */
static jmp_buf back;

static void published(volatile int *at)
{
	place = (unsigned long)at;
	places++;
}

#define WRITE(variable, value) (writes++, (variable) = (value))

/* The frame that was there is filled, deeper than any of the others. */
__attribute__((noinline)) void overwrite(void)
{
	volatile int words[256];

	for (int i = 0; i < 256; i++)
		words[i] = 0x5555;
	(void)words[255];
}

__attribute__((noinline)) void bump(volatile int *to)
{
	WRITE(*to, 3);
}

__attribute__((noinline)) int parse_line(int n)
{
	volatile int count;

	WRITE(count, 1);
	published(&count);
	WRITE(count, 2);
	bump(&count);
	return count + n;
}

__attribute__((noinline)) int descend(int depth)
{
	volatile int level;

	WRITE(level, depth);
	published(&level);
	int below = depth ? descend(depth - 1) : 0;
	WRITE(level, depth + 100);
	return below + level;
}

static inline __attribute__((always_inline)) int inlined_part(int n)
{
	volatile int inner;

	WRITE(inner, n);
	published(&inner);
	WRITE(inner, n + 1);
	return inner;
}

__attribute__((noinline)) int with_copy(int n)
{
	int sum = 0;

	for (int i = 0; i < 2; i++) {
		sum += inlined_part(n + i);
		overwrite();
	}
	return sum;
}

/* Two blocks, whose variables the compiler may put into the same place. */
__attribute__((noinline)) int in_block(int n)
{
	int sum = 0;

	for (int i = 0; i < 2; i++) {
		{
			volatile int first[4];
			WRITE(first[0], n);
			published(&first[0]);
			bump(&first[0]);
			sum += first[0];
		}
		{
			volatile int second[4];
			for (int k = 0; k < 4; k++)
				second[k] = 0x5555;
			sum += second[n & 3];
		}
	}
	return sum;
}

__attribute__((noinline)) int left_by_jump(int n)
{
	volatile int before;

	WRITE(before, n);
	published(&before);
	WRITE(before, n + 1);
	if (n >= 0)
		longjmp(back, 1);
	return before;
}

__attribute__((noinline)) int in_register(int n)
{
	int held = n * 3;

	while (held > 10)
		held -= n;
	return held;
}

__attribute__((noinline)) int left_by_exit(int n)
{
	volatile int before;

	WRITE(before, n);
	published(&before);
	WRITE(before, n + 1);
	if (n >= 0)
		pthread_exit((void *)writes);
	return before;
}

static void *exit_early(void *arg)
{
	int n = (int)(long)arg;

	overwrite();
	return (void *)(long)left_by_exit(n);
}

/* The next thread gets the stack of this one. */
static void round_of_exit(int n)
{
	pthread_t thread;
	void *count = NULL;

	if (!pthread_create(&thread, NULL, exit_early, (void *)(long)n))
		pthread_join(thread, &count);
	writes += (unsigned long)count;
}

__attribute__((noinline)) void thing_begin(struct thing *t)
{
	WRITE(t->count, 1);
	WRITE(t->count, 2);
}

__attribute__((noinline)) struct thing *thing_make(void)
{
	struct thing *t = calloc(1, sizeof(*t));

	t->unused[0] = 1;
	return t;
}

__attribute__((noinline)) void thing_end(struct thing *t)
{
	free(t);
}

static void round_of_objects(void)
{
	struct thing *t = thing_make();

	thing_begin(t);
	for (int i = 0; i < 3; i++)
		bump(&t->count);
	thing_end(t);
	t = malloc(sizeof(*t));
	for (int i = 0; i < 3; i++)
		t->count = 0x5555;
	free(t);
}

static void round_of(const char *mode, int n)
{
	if (!strcmp(mode, "plain"))
		parse_line(n);
	else if (!strcmp(mode, "recursion"))
		descend(2);
	else if (!strcmp(mode, "inlined"))
		with_copy(n);
	else if (!strcmp(mode, "block"))
		in_block(n);
	else if (!strcmp(mode, "exit"))
		round_of_exit(n);
	else if (!strcmp(mode, "objects"))
		round_of_objects();
	else if (!setjmp(back))
		left_by_jump(n);
	overwrite();
}

static int rounds;
static const char *mode_of_all;

static void *run(void *arg)
{
	for (int i = 0; i < rounds; i++) {
		round_of(mode_of_all, i);
		usleep(10000);
	}
	*(unsigned long *)arg = writes;
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long sum[2] = { 0, 0 };
	pthread_t thread;

	if (argc < 3)
		return 2;
	rounds = atoi(argv[2]);
	mode_of_all = argv[1];
	puts("ready");
	fflush(stdout);
	usleep(1000 + (unsigned int)in_register(rounds) % 2);
	if (!strcmp(mode_of_all, "threads")) {
		mode_of_all = "plain";
		if (pthread_create(&thread, NULL, run, &sum[1]))
			return 1;
		run(&sum[0]);
		pthread_join(thread, NULL);
	} else {
		run(&sum[0]);
	}
	printf("writes %lu\n", sum[0] + sum[1]);
	return 0;
}
