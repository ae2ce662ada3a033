/* SPDX-License-Identifier: MIT */
/*
 * raw_action.c - sets its handler of SIGTRAP by a system call of its own, at SIGUSR1, as runtimes without libc do.
 *
 * At SIGUSR2 it begins to count what its handler gets, and at SIGTERM it prints the count: what is not its own.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct raw_action {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

void restore(void);
__asm__(".text\n"
	"restore:\n"
	"	movq $15, %rax\n"
	"	syscall\n");

static volatile int traps;
static volatile sig_atomic_t last;
static long values[64];

static void on_trap(int number)
{
	traps++;
}

static void on_signal(int number)
{
	last = number;
}

static void set_handler(void)
{
	const struct raw_action action = { on_trap, 0x04000000 | SA_RESTART, restore, 0 };

	register long bytes __asm__("r10") = sizeof(action.mask);
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(SYS_rt_sigaction), "D"(SIGTRAP), "S"(&action), "d"(NULL), "r"(bytes)
			 : "rcx", "r11", "memory");
}

static void *work(void *arg)
{
	for (unsigned i = 0; last != SIGTERM; i++) {
		char block[64] = "";

		memcpy(block, &i, sizeof(i));
		values[i % 64] += block[0];
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[2];

	alarm(120);
	signal(SIGUSR1, on_signal);
	signal(SIGUSR2, on_signal);
	signal(SIGTERM, on_signal);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	while (last != SIGTERM) {
		usleep(10000);
		if (last == SIGUSR1)
			set_handler();
		if (last == SIGUSR2)
			traps = 0;
		if (last != SIGTERM)
			last = 0;
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%d traps\n", traps);
	return 0;
}
