/* SPDX-License-Identifier: MIT */
/*
 * race_reopen.c - opens and closes a library over and over, while threads run, and maps memory where it
 * was. Prints "done", or that somebody wrote there.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLACE_BYTES 65536

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

/* Zeros where the library was stay zeros. */
static int is_written(uintptr_t place)
{
	int written = 0;
	const uint8_t *bytes = mmap((void *)place, PLACE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (bytes == MAP_FAILED)
		return 0;
	usleep(5000);
	for (int i = 0; i < PLACE_BYTES; i++)
		written += bytes[i] != 0;
	munmap((void *)place, PLACE_BYTES);
	return written;
}

static uintptr_t use(void *library)
{
	unsigned long (*crc32)(unsigned long, const unsigned char *, unsigned int);

	*(void **)&crc32 = dlsym(library, "crc32");
	for (int i = 0; i < 20; i++)
		crc32(0, (const unsigned char *)"hello", 5);
	usleep(5000);
	return (uintptr_t)crc32 & -4096ul;
}

int main(void)
{
	pthread_t threads[2];
	int written = 0;

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 60; i++) {
		void *library = dlopen("libz.so.1", RTLD_NOW);

		if (library) {
			uintptr_t place = use(library);
			dlclose(library);
			written += is_written(place);
		}
	}
	stop = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	if (written)
		printf("%d bytes were written where the library was\n", written);
	else
		puts("done");
	return 0;
}
