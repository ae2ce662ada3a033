/* SPDX-License-Identifier: MIT */
/*
 * plugin_host.c - plugin_host FILE MS CALLS [VFORK_MS]: loads FILE after MS, calls its plugin_func()
 * as often, and prints the sum. More threads wait in the meantime: they are stalled by nothing. One
 * waits for VFORK_MS in vfork(2) for its child; it is joined.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void *sit(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

static void *wait_in_vfork(void *arg)
{
	const struct timespec *time = arg;
	const pid_t child = vfork();

	if (!child) {
		nanosleep(time, NULL);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	return NULL;
}

int host_func(int n);

__attribute__((noinline)) int host_func(int n)
{
	__asm__ volatile("");
	return n + 1;
}

int main(int argc, char **argv)
{
	int (*func)(int);
	struct timespec time = { 0, 0 };
	pthread_t thread;
	void *library;
	int sum = 0;

	if (argc < 4)
		return 2;
	for (int i = 0; i < 2; i++)
		pthread_create(&thread, NULL, sit, NULL);
	if (argc > 4) {
		time.tv_sec = atoi(argv[4]) / 1000;
		time.tv_nsec = atoi(argv[4]) % 1000 * 1000000l;
		pthread_create(&thread, NULL, wait_in_vfork, &time);
	}
	host_func(1);
	usleep((unsigned int)atoi(argv[2]) * 1000);
	/* One that is loaded before has other names. */
	dlopen("libm.so.6", RTLD_NOW);
	library = dlopen(argv[1], RTLD_NOW);
	func = library ? (int (*)(int))dlsym(library, "plugin_func") : NULL;
	for (int i = 0; func && i < atoi(argv[3]); i++)
		sum = func(1);
	if (argc > 4)
		pthread_join(thread, NULL);
	host_func(2);
	printf("%d\n", sum);
	return 0;
}
