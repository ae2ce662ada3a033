/* SPDX-License-Identifier: MIT */
/*
 * race_heap.cc - a race for memory that is allocated in each of the ways there are, once by a thread
 * that has ended when it is raced for, and once by one of those that race.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define ROUND 100
#define OFFSET 40
#define BLOCK 96
#define LARGE 1000000
#define LARGE_OFFSET 600000

static long *volatile shared;
static uint64_t end_ns;
static long sink;

static uint64_t now_ns()
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void work(int n)
{
	for (int i = 0; i < n; i++)
		__asm__ volatile("" ::: "memory");
}

extern "C" {
NOINLINE void word_write(long *p, long v)
{
	*p = v;
}

NOINLINE long word_read(const long *p)
{
	return *p;
}

NOINLINE char *make_malloc()
{
	return (char *)malloc(BLOCK);
}

NOINLINE char *make_calloc()
{
	return (char *)calloc(BLOCK / 8, 8);
}

/* Of the last size: the blocks of before are known too, as freed. */
NOINLINE char *make_realloc()
{
	char *p = (char *)malloc(24);

	for (size_t n = 32; n <= BLOCK; n += 8)
		p = (char *)realloc(p, n);
	return p;
}

NOINLINE char *make_aligned()
{
	void *p = NULL;

	if (posix_memalign(&p, 64, BLOCK))
		abort();
	return (char *)p;
}

NOINLINE char *make_memalign()
{
	return (char *)memalign(256, BLOCK);
}

NOINLINE char *make_new()
{
	struct whole {
		char bytes[BLOCK];
	};

	return (new whole)->bytes;
}

NOINLINE char *make_large()
{
	return (char *)malloc(LARGE) + LARGE_OFFSET - OFFSET;
}

/* Not by malloc: nobody notes it. */
NOINLINE char *make_mapped()
{
	return (char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
}

static void *race_for_it(void *arg)
{
	long *p = shared;

	for (long n = 0; now_ns() < end_ns;)
		for (int i = 0; i < ROUND; i++) {
			if (arg)
				word_write(p, n++);
			else
				sink += word_read(p);
			work(20);
		}
	return NULL;
}

static void *allocate(void *make)
{
	shared = (long *)(((char *(*)())make)() + OFFSET);
	return NULL;
}

static void run_two(void *(*run)(void *))
{
	pthread_t threads[2];

	for (intptr_t i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, run, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static void race_for(char *(*make)())
{
	pthread_t thread;

	pthread_create(&thread, NULL, allocate, (void *)make);
	pthread_setname_np(thread, "gone");
	pthread_join(thread, NULL);
	run_two(race_for_it);
}

/* ---- one frees what the other is about to use ---- */

extern "C" {
NOINLINE void node_drop(long *p)
{
	*p = -1;
	free((char *)p - OFFSET);
}

NOINLINE void node_use(long *p)
{
	*p += 1;
}
}

static void *use_or_drop(void *arg)
{
	while (now_ns() < end_ns) {
		if (!arg) {
			allocate((void *)make_malloc);
			usleep(200);
			node_drop(shared);
			usleep(200);
		} else {
			long *p = shared;

			for (int i = 0; p && i < ROUND; i++) {
				node_use(p);
				work(20);
			}
		}
	}
	return NULL;
}

static void use_after_free()
{
	pthread_setname_np(pthread_self(), "first");
	run_two(use_or_drop);
}

static void in_a_child()
{
	free(make_malloc());
	if (fork() == 0) {
		race_for(make_malloc);
		_exit(0);
	}
	wait(NULL);
}

/* Threads that allocate and free all the time; what they have is theirs alone. */
static void *churn(void *)
{
	void *kept[64] = { NULL };
	unsigned int seed = 1;

	while (now_ns() < end_ns) {
		int i = rand_r(&seed) % 64;

		free(kept[i]);
		kept[i] = calloc(1, (size_t)rand_r(&seed) % 5000);
	}
	for (int i = 0; i < 64; i++)
		free(kept[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		char *(*make)();
	} makers[] = {
		{ "malloc", make_malloc },     { "calloc", make_calloc },
		{ "realloc", make_realloc },   { "aligned", make_aligned },
		{ "memalign", make_memalign }, { "new", make_new },
		{ "large", make_large },       { "mapped", make_mapped },
	};
	const char *mode = argc > 2 ? argv[1] : "";

	end_ns = now_ns() + (uint64_t)(argc > 2 ? atof(argv[2]) * 1e9 : 0);
	for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++)
		if (!strcmp(mode, makers[i].name)) {
			race_for(makers[i].make);
			return 0;
		}
	if (!strcmp(mode, "use_after_free"))
		use_after_free();
	else if (!strcmp(mode, "child"))
		in_a_child();
	else if (!strcmp(mode, "churn"))
		run_two(churn);
	else
		return 2;
	return 0;
}
