/* SPDX-License-Identifier: MIT */
/* race_reopen.c - opens and closes a library over and over, while threads run. Prints "done". */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static volatile int stop;
static long count;

static void *work(void *arg)
{
	while (!stop) {
		for (volatile int i = 0; i < 1000; i++)
			;
		__atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
		usleep(100);
	}
	return NULL;
}

static void use(void *library)
{
	unsigned long (*crc32)(unsigned long, const unsigned char *, unsigned int);

	*(void **)&crc32 = dlsym(library, "crc32");
	for (int i = 0; i < 20; i++)
		crc32(0, (const unsigned char *)"hello", 5);
	usleep(5000);
}

int main(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 60; i++) {
		void *library = dlopen("libz.so.1", RTLD_NOW);

		if (library) {
			use(library);
			dlclose(library);
		}
		usleep(5000);
	}
	stop = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	puts("done");
	return 0;
}
