/* SPDX-License-Identifier: MIT */
/*
 * plugin_host.c - plugin_host FILE MS CALLS: loads FILE after MS, calls its plugin_func() as often,
 * and prints the sum. More threads wait in the meantime: they are stalled by nothing.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *sit(void *arg)
{
	(void)arg;
	for (;;)
		pause();
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
	pthread_t thread;
	void *library;
	int sum = 0;

	if (argc < 4)
		return 2;
	for (int i = 0; i < 2; i++)
		pthread_create(&thread, NULL, sit, NULL);
	host_func(1);
	usleep((unsigned int)atoi(argv[2]) * 1000);
	/* One that is loaded before has other names. */
	dlopen("libm.so.6", RTLD_NOW);
	library = dlopen(argv[1], RTLD_NOW);
	func = library ? (int (*)(int))dlsym(library, "plugin_func") : NULL;
	for (int i = 0; func && i < atoi(argv[3]); i++)
		sum = func(1);
	host_func(2);
	printf("%d\n", sum);
	return 0;
}
