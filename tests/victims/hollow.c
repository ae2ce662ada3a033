/* SPDX-License-Identifier: MIT */
/*
 * hollow.c - calls leaf() with unused room of 16 pages above it on the stack, which no memory stands
 * behind, at each distance from a page's end in turns; in a thread that has used that room for
 * nothing else. Until killed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <alloca.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOINLINE static __attribute__((noipa))
#define STACK_BYTES (1u << 20)

NOINLINE void leaf(volatile char *touched)
{
	*touched = 1;
}

/* The lowest byte alone is written. */
NOINLINE void hollow(unsigned int n)
{
	volatile char *room = alloca(65536 + n);

	leaf(room);
}

static void *thread(void *arg)
{
	for (unsigned int n = 0; n < 4096; n += 128) {
		hollow(n);
		usleep(1000);
	}
	return arg;
}

int main(void)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	for (;;) {
		pthread_t id;
		/* Fresh each time: nothing stands behind it. */
		void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (stack == MAP_FAILED || pthread_attr_setstack(&attributes, stack, STACK_BYTES) ||
		    pthread_create(&id, &attributes, thread, NULL))
			return 1;
		pthread_join(id, NULL);
		munmap(stack, STACK_BYTES);
	}
}
