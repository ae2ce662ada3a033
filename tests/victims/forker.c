/* SPDX-License-Identifier: MIT */
/*
 * forker.c - a prefork server in small.
 *
 *	forker N		forks N children, each of which calls once, and prints how many did
 *	forker exec FILE	calls, and a child executes FILE once
 *	forker loop		calls every 20 ms, for ever
 *	forker once		calls once
 *	forker serve		forks a child that calls, every 20 ms, for ever
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT_ONCE 32

static volatile int sum;

__attribute__((noinline)) static void serve_one(int number, const char *request)
{
	sum += number + request[0];
	__asm__ volatile("" ::: "memory");
}

static pid_t fork_one(int number)
{
	pid_t child = fork();

	if (child == 0) {
		serve_one(number, "child");
		_exit(0);
	}
	return child;
}

static void fork_many(long n)
{
	long forked = 0;

	for (long i = 0; i < n; i++) {
		forked += fork_one((int)i) > 0;
		if (i % AT_ONCE == AT_ONCE - 1)
			while (waitpid(-1, NULL, 0) > 0)
				;
	}
	while (waitpid(-1, NULL, 0) > 0)
		;
	printf("%ld\n", forked);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "once";

	if (!strcmp(what, "once")) {
		serve_one(0, "once");
	} else if (!strcmp(what, "exec") && argc > 2) {
		serve_one(0, "before");
		if (fork() == 0)
			execl(argv[2], argv[2], "once", NULL);
		wait(NULL);
	} else if (!strcmp(what, "loop") || !strcmp(what, "serve")) {
		for (;; usleep(20000)) {
			if (*what == 'l')
				serve_one(getpid(), "loop");
			else if (fork_one(1) > 0)
				wait(NULL);
		}
	} else {
		fork_many(atol(what));
	}
	return 0;
}
