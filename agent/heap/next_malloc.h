/* SPDX-License-Identifier: MIT */
/*
 * next_malloc.h - the allocator that an object is before, whichever it is.
 *
 * Until it is known, dlsym() may want memory: that comes from a small buffer, and is never given
 * back.
 */
#ifndef AGENT_NEXT_MALLOC_H
#define AGENT_NEXT_MALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EARLY_BYTES 8192u
extern unsigned char early_memory[EARLY_BYTES];

struct next_malloc {
	void *(*malloc)(size_t);
	void (*free)(void *);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*valloc)(size_t);
	void *(*pvalloc)(size_t);
	size_t (*usable_size)(void *);
	int is_complete;
};
extern struct next_malloc next;

/* Two threads at once find the same. */
void next_malloc_find(void);

/* Zeroed; NULL and errno: there is no room. */
void *early_take(size_t bytes);
/* The same for n members; what does not fit into a size_t has no room. */
void *early_take_all(size_t n, size_t size);
static inline bool early_has(const void *p)
{
	return (uintptr_t)p - (uintptr_t)early_memory < EARLY_BYTES;
}
/* Bytes that may be read from there on. */
size_t early_left(const void *p);

#endif
