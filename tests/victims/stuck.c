/* SPDX-License-Identifier: MIT */
/*
 * stuck.c - has a dlopen() of its own, which does not return before SIGUSR1. Its only other work is to
 * sleep in pieces and to compute; prints "ok" at SIGTERM if the thread still does that.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

static atomic_int is_free;
static atomic_ulong rounds;

void *dlopen(const char *path, int flags);

__attribute__((visibility("default"))) void *dlopen(const char *path, int flags)
{
	/* Unlike nanosleep(2) this leaves the thread's interrupted call alone, as a real dlopen() does. */
	while (!is_free)
		select(0, NULL, NULL, NULL, &(struct timeval){ 0, 1000 });
	return NULL;
}

static void *wait_for_signals(void *arg)
{
	sigset_t *set = arg;
	int number;

	while (!sigwait(set, &number)) {
		if (number == SIGUSR1) {
			is_free = 1;
			continue;
		}
		unsigned long before = rounds;
		for (int i = 0; i < 1000 && rounds < before + 10; i++)
			usleep(10000);
		puts(rounds >= before + 10 ? "ok" : "the thread hangs");
		fflush(stdout);
		_exit(0);
	}
	return NULL;
}

int main(void)
{
	struct timespec pause = { 0, 5000000 };
	pthread_t thread;
	sigset_t set;

	alarm(120); /* not left over by a test that failed */
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pthread_create(&thread, NULL, wait_for_signals, &set);
	for (;;) {
		if (nanosleep(&pause, NULL)) {
			puts("a sleep was cut short");
			exit(1);
		}
		rounds++;
	}
}
