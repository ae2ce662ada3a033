/* SPDX-License-Identifier: MIT */
/*
 * born_blocked.c MODE SECONDS - threads that have every signal blocked, born at every moment, and that call
 * what tools look at. It checks itself: 0, and a line that says how often.
 *
 *	libc	by pthread_sigmask() and pthread_create(), as libraries do
 *	raw	by clone(2) and rt_sigprocmask(2), without libc
 *	mask	one thread blocks and unblocks by rt_sigprocmask(2)
 *	handler	a handler that blocks every signal
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES 65536

/* No jump fits: two bytes, and nothing that is code behind them. */
__asm__(".globl tiny\n.type tiny, @function\ntiny:\n\tnop\n\tret\n.size tiny, . - tiny\n\t.byte 0, 0, 0, 0\n");
void tiny(void);

static volatile int is_wrong;
static volatile long calls;
static char name[64];
static long name_bytes;

int work(int n);
__attribute__((noinline)) int work(int n)
{
	__asm__ volatile("nop\n\tnop\n\tnop\n\tnop\n\tnop" ::: "memory");
	return n + 1;
}

static void call_all(void)
{
	char bytes[64] = "";
	const int fd = open("/proc/self/comm", O_RDONLY);
	const long got = read(fd, bytes, sizeof(bytes));

	tiny();
	if (fd < 0 || got != name_bytes || memcmp(bytes, name, (size_t)got) != 0 || work(3) != 4)
		is_wrong = 1;
	close(fd);
	calls++;
}

static void *thread(void *arg)
{
	call_all();
	return arg;
}

static void by_libc(void)
{
	sigset_t all;
	sigset_t before;
	pthread_t t;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	const int err = pthread_create(&t, NULL, thread, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!err)
		pthread_join(t, NULL);
}

static int raw_thread(void *arg)
{
	const uint64_t all = UINT64_MAX;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof(all));
	call_all();
	*(volatile int *)arg = 1;
	syscall(SYS_exit, 0);
	return 0;
}

static void by_clone(void)
{
	static char *stack;
	volatile int has_ended = 0;

	if (!stack)
		stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);
	const int tid = clone(raw_thread, stack + STACK_BYTES,
			      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
				      CLONE_SYSVSEM,
			      (void *)&has_ended);
	while (tid > 0 && (!has_ended || !syscall(SYS_tgkill, getpid(), tid, 0)))
		sched_yield();
}

static void by_mask(void)
{
	const uint64_t all = UINT64_MAX;
	uint64_t before = 0;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
	call_all();
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
}

static void on_signal(int sig)
{
	(void)sig;
	call_all();
}

static void by_handler(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigfillset(&action.sa_mask);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = { { "libc", by_libc },
		      { "raw", by_clone },
		      { "mask", by_mask },
		      { "handler", by_handler } };
	const time_t end = time(NULL) + (argc > 2 ? atoi(argv[2]) : 1);
	const int fd = open("/proc/self/comm", O_RDONLY);

	name_bytes = read(fd, name, sizeof(name));
	close(fd);
	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name) != 0)
			continue;
		while (time(NULL) < end) {
			modes[i].run();
			usleep(1000);
		}
		printf("%ld calls, %s\n", calls, is_wrong ? "wrong" : "right");
		return is_wrong;
	}
	return 9;
}
