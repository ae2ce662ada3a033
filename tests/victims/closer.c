/* SPDX-License-Identifier: MIT */
/*
 * closer.c - computes in two threads, and closes at SIGUSR1 all descriptors that it does not know, as
 * daemons do when they start. Then it has files of its own at these numbers, until SIGTERM; prints "ok"
 * if they are still open.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILES 40

static volatile sig_atomic_t is_asked;
static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	*(number == SIGUSR1 ? &is_asked : &stop) = 1;
}

static void *compute(void *arg)
{
	for (volatile unsigned long n = 0;; n++)
		;
	return NULL;
}

static int open_files(void)
{
	int last = -1;

	for (int i = 0; i < FILES; i++)
		last = open("/dev/null", O_WRONLY);
	return last;
}

int main(void)
{
	pthread_t thread;
	int last = -1;

	alarm(120); /* not left over by a test that failed */
	signal(SIGUSR1, on_signal);
	signal(SIGTERM, on_signal);
	for (int i = 0; i < 2; i++)
		pthread_create(&thread, NULL, compute, NULL);
	while (!stop) {
		usleep(10000);
		if (!is_asked)
			continue;
		is_asked = 0;
		syscall(SYS_close_range, 3, ~0u, 0);
		last = open_files();
	}
	for (int fd = last; fd > last - FILES && last >= 0; fd--)
		if (write(fd, "", 1) != 1) {
			printf("descriptor %d is gone\n", fd);
			return 1;
		}
	puts("ok");
	return 0;
}
