/* SPDX-License-Identifier: MIT */
/*
 * deaths.c - a program that a signal ends, or does not: `deaths WAY [wait]`. With `wait` it prints its number
 * and waits for a line first.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Winfinite-recursion"
#pragma GCC diagnostic ignored "-Wuse-after-free"

static volatile int zero;
static sigjmp_buf back;
static const char *volatile executable;

__attribute__((noinline)) static void store(char *at)
{
	*(volatile char *)at = 1;
}

__attribute__((noinline)) static void die_by_store(void)
{
	store((char *)0xea60);
	zero++;
}

__attribute__((noinline)) static void divide(void)
{
	zero = 7 / zero;
}

__attribute__((noinline)) static int recurse(int depth)
{
	volatile char room[3000];

	room[depth % 100] = (char)depth;
	return recurse(depth + 1) + room[depth % 100];
}

__attribute__((noinline)) static void past_the_end_of_a_file(void)
{
	FILE *f = tmpfile();
	char *page = f ? mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(f), 0) :
			 MAP_FAILED;

	if (page != MAP_FAILED)
		store(page);
}

static void *thread_of(void *arg)
{
	pthread_setname_np(pthread_self(), "worker");
	die_by_store();
	return arg;
}

static void in_a_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, thread_of, NULL);
	pthread_join(thread, NULL);
}

static void on_fault(int signal)
{
	siglongjmp(back, signal);
}

static void handled(void)
{
	signal(SIGSEGV, on_fault);
	if (!sigsetjmp(back, 1))
		die_by_store();
	puts("went on");
}

static void on_crash(int number)
{
	write(2, "crash\n", 6);
	signal(number, SIG_DFL);
	raise(number);
}

/* As programs with a crash reporter do. */
static void reported(void)
{
	signal(SIGSEGV, on_crash);
	die_by_store();
}

static void in_a_child(void)
{
	if (!fork()) {
		die_by_store();
		_exit(0);
	}
	wait(NULL);
}

static void itself(void)
{
	raise(SIGTERM);
}

static void by_exit(void)
{
	exit(3);
}

static void forever(void)
{
	for (;;)
		pause();
}

static void deleted(void)
{
	unlink(executable);
	die_by_store();
}

__attribute__((noinline)) static void read_freed(volatile char *at)
{
	zero += *at;
}

/* Errors of the heap, the last of which may be the end. */
static void freed(void)
{
	unlink(executable);
	for (int i = 0; i < 300000; i++) {
		char *volatile block = malloc(48);

		free(block);
		read_freed(block);
	}
	_exit(7);
}

/* Its name leads to another program then. */
static void replaced(void)
{
	char call[300];

	snprintf(call, sizeof(call), "rm '%s'; cp /bin/sh '%s'", executable, executable);
	if (!system(call))
		die_by_store();
}

__attribute__((noinline)) static void jump(void)
{
	void (*volatile to)(void) = NULL;

	to();
	zero++;
}

__attribute__((noinline)) static void with_much_room(void)
{
	volatile char room[90000];

	memset((char *)room, 1, sizeof(room));
	die_by_store();
	zero += room[5];
}

static volatile long shared;

__attribute__((noinline)) static void step(void)
{
	shared++;
}

static long now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* Until a step takes long, and for a while at most. */
static void *steps(void *arg)
{
	const long end = now_us() + 1000000;

	for (long at = now_us(); at < end; at = now_us()) {
		step();
		if (arg && now_us() - at > 300)
			die_by_store();
	}
	return NULL;
}

/* Dies where a thread waits at its step. */
static void stalled(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, steps, (void *)&shared);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

/* Dies long after its last step, in libc, which is not stalled. */
static void later(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, steps, NULL);
	steps(NULL);
	pthread_join(thread, NULL);
	usleep(200000);
	abort();
}

static const struct {
	const char *name;
	void (*run)(void);
} ways[] = {
	{ "store", die_by_store },  { "divide", divide },
	{ "abort", abort },	    { "bus", past_the_end_of_a_file },
	{ "thread", in_a_thread },  { "handled", handled },
	{ "reported", reported },   { "child", in_a_child },
	{ "itself", itself },	    { "exit", by_exit },
	{ "forever", forever },	    { "deleted", deleted },
	{ "replaced", replaced },   { "jump", jump },
	{ "room", with_much_room }, { "freed", freed },
	{ "stalled", stalled },	    { "later", later },
};

static void *idle(void *arg)
{
	forever();
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	char line[8];

	executable = argv[0];
	pthread_create(&thread, NULL, idle, NULL);
	free(malloc(100));
	if (argc > 2) {
		printf("%d\n", getpid());
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin))
			return 1;
	}
	if (argc > 1 && !strcmp(argv[1], "overflow"))
		return recurse(0);
	for (size_t i = 0; argc > 1 && i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(ways[i].name, argv[1]))
			ways[i].run();
	return 0;
}
