/* SPDX-License-Identifier: MIT */
/* next_malloc.c - see next_malloc.h. */
#include "agent/heap/next_malloc.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>

#include "base/atomic.h"

#define ALIGNMENT 16u

struct next_malloc next;

unsigned char early_memory[EARLY_BYTES] __attribute__((aligned(ALIGNMENT)));
static size_t early_used;

size_t early_left(const void *p)
{
	return (size_t)(early_memory + EARLY_BYTES - (const unsigned char *)p);
}

void *early_take(size_t bytes)
{
	size_t whole = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
	size_t at = bytes > EARLY_BYTES ? EARLY_BYTES : counter_add(&early_used, whole);

	if (at + whole > EARLY_BYTES) {
		errno = ENOMEM;
		return NULL;
	}
	return &early_memory[at];
}

void *early_take_all(size_t n, size_t size)
{
	return early_take(size && n > EARLY_BYTES / size ? EARLY_BYTES + 1 : n * size);
}

void next_malloc_find(void)
{
	next.malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	next.free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
	next.calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
	next.realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
	next.memalign = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "memalign");
	next.aligned_alloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
	next.posix_memalign = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
	next.valloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "valloc");
	next.pvalloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "pvalloc");
	next.usable_size = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
	atomic_set(&next.is_complete, 1);
}
