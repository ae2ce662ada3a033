/* SPDX-License-Identifier: MIT */
/*
 * sigwaiter.c SIGNAL FILE - a daemon as many are: all threads block all signals (SIGTERM: but SIGTRAP), and the first
 * one takes SIGNAL by sigtimedwait(), which it sends to its own process. It ends when FILE exists, and prints how many it has sent and taken.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static volatile long counter;

long step(long x);
extern char *page;

/* Room for a jump. */
NOINLINE long step(long x)
{
	__asm__ volatile("nop\n nop\n nop\n nop\n nop" ::: "memory");
	counter = x;
	return x + 1;
}

/* Room for a breakpoint only. */
void tiny(void);
#if defined(__x86_64__)
__asm__(".pushsection .text\n"
	"	.globl tiny\n"
	"	.type tiny, @function\n"
	"tiny:	nop\n"
	"	ret\n"
	"	.size tiny, .-tiny\n"
	"	.zero 8\n"
	"	.popsection\n");
#else
NOINLINE void tiny(void)
{
}
#endif

/* A page that becomes writable at the first write, as garbage collectors have them. */
char *page;

static void on_fault(int number, siginfo_t *info, void *context)
{
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void make_page(void)
{
	const struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaction(SIGSEGV, &action, NULL);
}

static void *work(void *arg)
{
	for (long i = 0;; i++) {
		char *block = malloc(40);

		step(i);
		tiny();
		memset(block, (int)i, 40);
		free(block);
		usleep(1000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const struct timespec second = { 1, 0 };
	int number = argc == 3 ? atoi(argv[1]) : SIGTERM;
	long sent = 0;
	long taken = 0;
	pthread_t threads[2];
	sigset_t set;

	alarm(120);
	if (number != SIGSEGV)
		make_page();
	sigfillset(&set);
	sigdelset(&set, SIGALRM);
	if (number == SIGTERM)
		sigdelset(&set, SIGTRAP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	sigemptyset(&set);
	sigaddset(&set, number);
	while (argc == 3 && access(argv[2], F_OK)) {
		kill(getpid(), number);
		sent++;
		taken += sigtimedwait(&set, NULL, &second) == number;
		usleep(500);
	}
	printf("sent %ld, taken %ld\n", sent, taken);
	return sent != taken;
}
