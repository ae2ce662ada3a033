/* SPDX-License-Identifier: MIT */
/* spinner.c - N threads that compute for so many seconds of wall time. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static double end;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *spin(void *arg)
{
	while (now() < end)
		for (volatile int i = 0; i < 10000; i++)
			;
	return NULL;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t threads[256];

	end = now() + (argc > 2 ? atof(argv[2]) : 1);
	for (int i = 0; i < n && i < 256; i++)
		pthread_create(&threads[i], NULL, spin, NULL);
	for (int i = 0; i < n && i < 256; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
