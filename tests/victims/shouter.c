/* SPDX-License-Identifier: MIT */
/*
 * shouter.c MODE SECONDS - a thread writes on standard error all the time, beside what a report is about: two threads
 * that race, a read of a freed block, a child that dies, bytes that go from one file to another.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int is_over;
static volatile unsigned long shared_count;

static void *shout(void *arg)
{
	while (!is_over)
		if (write(STDERR_FILENO, "noise\n", 6) != 6)
			break;
	return arg;
}

static __attribute__((noinline)) void count_up(void)
{
	for (int i = 0; i < 1000; i++)
		shared_count++;
}

static void *run_race(void *arg)
{
	while (!is_over)
		count_up();
	return arg;
}

static void (*volatile release)(void *) = free; /* the compiler shall not know what it does */

static __attribute__((noinline)) int read_freed(size_t n)
{
	volatile char *p = malloc(n);

	p[0] = 1;
	release((void *)p);
	return p[0];
}

static __attribute__((noinline)) void die(void)
{
	*(volatile int *)8 = 1;
}

static __attribute__((noinline)) void pass_bytes(void)
{
	char text[64];
	int from = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
	int to = open("/dev/null", O_WRONLY | O_CLOEXEC);
	ssize_t n = read(from, text, sizeof(text));

	if (n > 0 && write(to, text, (size_t)n) != n)
		is_over = 1;
	close(from);
	close(to);
}

static void act(const char *mode)
{
	const struct timespec pause = { 0, 10000000 };
	pid_t child;

	if (!strcmp(mode, "heap"))
		read_freed(40);
	else if (!strcmp(mode, "flow"))
		pass_bytes();
	else if (!strcmp(mode, "death") && !(child = fork()))
		die();
	else if (!strcmp(mode, "death"))
		waitpid(child, NULL, 0);
	nanosleep(&pause, NULL);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "race";
	time_t end = time(NULL) + (argc > 2 ? atoi(argv[2]) : 2);
	pthread_t threads[3];
	int n = 0;

	pthread_create(&threads[n++], NULL, shout, NULL);
	for (int i = 0; i < 2 && !strcmp(mode, "race"); i++)
		pthread_create(&threads[n++], NULL, run_race, NULL);
	while (time(NULL) < end && !is_over)
		act(mode);
	is_over = 1;
	while (n)
		pthread_join(threads[--n], NULL);
	return 0;
}
