/* SPDX-License-Identifier: MIT */
/*
 * guard.c - the object that is preloaded for `trapline heap`: it is before malloc() and its
 * family, of any allocator, and some blocks come from src/heap/ instead.
 *
 * A block of the allocator goes to the allocator, a sampled one to the detector: by its address
 * alone. So blocks may be freed long after sampling has ended, in a child too.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "agent/guard/guard.h"
#include "agent/heap/next_malloc.h"
#include "base/atomic.h"
#include "base/memory.h"
#include "heap/heap.h"

__thread enum heap_family guard_family __attribute__((tls_model("initial-exec")));

/* Returns false while this thread is at it: dlsym() may allocate. */
bool guard_find_next(void)
{
	if (__builtin_expect(counter_get(&next.is_complete), 1))
		return true;
	if (heap_self.busy)
		return false;
	heap_self.busy++;
	next_malloc_find();
	heap_self.busy--;
	return true;
}

/* ---- allocate ---- */

/* What is seldom is out of the way: these functions save fewer registers then. */
#define SELDOM __attribute__((noinline, cold))

static SELDOM void *malloc_looked(size_t bytes, const uint64_t *frame)
{
	const struct heap_request request = { .bytes = bytes,
					      .family = guard_family,
					      .frame = frame };
	void *p;

	if (!guard_find_next())
		return early_take(bytes);
	p = heap_take(&request);
	return p ? p : next.malloc(bytes);
}

/* What passes without a look comes when the allocator is known. */
GUARD(void *, malloc, (size_t bytes))
{
	if (bytes < HEAP_LARGE_BYTES && heap_passes())
		return next.malloc(bytes);
	return malloc_looked(bytes, GUARD_HERE);
}

static SELDOM void *calloc_looked(size_t n, size_t size, const uint64_t *frame)
{
	struct heap_request request = { .is_zeroed = true, .frame = frame };
	void *p = NULL;

	if (!guard_find_next())
		return early_take_all(n, size);
	/* The next one refuses what does not fit into a size_t. */
	if (!__builtin_mul_overflow(n, size, &request.bytes))
		p = heap_take(&request);
	return p ? p : next.calloc(n, size);
}

GUARD(void *, calloc, (size_t n, size_t size))
{
	if (n * size < HEAP_LARGE_BYTES && heap_passes())
		return next.calloc(n, size);
	return calloc_looked(n, size, GUARD_HERE);
}

static bool is_power_of_two(size_t n)
{
	return n && !(n & (n - 1));
}

static void *take_aligned(size_t alignment, size_t bytes, const uint64_t *frame)
{
	const struct heap_request request = {
		.bytes = bytes, .alignment = alignment, .family = guard_family, .frame = frame
	};

	return is_power_of_two(alignment) && guard_find_next() ? heap_take(&request) : NULL;
}

GUARD(void *, memalign, (size_t alignment, size_t bytes))
{
	void *p = take_aligned(alignment, bytes, GUARD_HERE);

	if (p)
		return p;
	return guard_find_next() ? next.memalign(alignment, bytes) : NULL;
}

GUARD(void *, aligned_alloc, (size_t alignment, size_t bytes))
{
	void *p = take_aligned(alignment, bytes, GUARD_HERE);

	if (p)
		return p;
	return guard_find_next() ? next.aligned_alloc(alignment, bytes) : NULL;
}

GUARD(int, posix_memalign, (void **out, size_t alignment, size_t bytes))
{
	void *p = alignment % sizeof(void *) ? NULL : take_aligned(alignment, bytes, GUARD_HERE);

	if (!p)
		return guard_find_next() ? next.posix_memalign(out, alignment, bytes) : ENOMEM;
	*out = p;
	return 0;
}

GUARD(void *, valloc, (size_t bytes))
{
	void *p = take_aligned(PAGE_BYTES, bytes, GUARD_HERE);

	if (p)
		return p;
	return guard_find_next() ? next.valloc(bytes) : NULL;
}

GUARD(void *, pvalloc, (size_t bytes))
{
	size_t whole = (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	void *p = whole < bytes ? NULL : take_aligned(PAGE_BYTES, whole, GUARD_HERE);

	if (p)
		return p;
	return guard_find_next() ? next.pvalloc(bytes) : NULL;
}

/* ---- free ---- */

/* Not of a sampled block: it is one of the allocator, or an error that is reported. */
static bool is_for_next(void *p, const uint64_t *frame)
{
	if (early_has(p) || !guard_find_next())
		return false;
	return !heap_may_be_wrong(p, frame) || !heap_range.bytes || heap_self.busy ||
	       !heap_is_wrong(p, frame);
}

static SELDOM void free_otherwise(void *p, const uint64_t *frame)
{
	int saved;

	if (!p)
		return;
	if (!heap_has(p)) {
		if (is_for_next(p, frame))
			next.free(p);
		return;
	}
	/* It keeps errno, as free() of the C library does since 2.33. */
	saved = errno;
	heap_give(p, guard_family, frame);
	errno = saved;
}

/* The block is of another arena, or it is wrong. */
static __attribute__((noinline)) void free_elsewhere(void *p, const uint64_t *frame)
{
	if (__builtin_expect(heap_has(p) || early_has(p) || heap_may_be_wrong(p, frame) ||
				     !counter_get(&next.is_complete),
			     0))
		free_otherwise(p, frame);
	else
		next.free(p);
}

GUARD(void, free, (void *p))
{
	if (heap_is_plain(p))
		next.free(p);
	else if (p)
		free_elsewhere(p, GUARD_HERE);
}

GUARD(size_t, malloc_usable_size, (void *p))
{
	if (heap_has(p))
		return heap_size(p);
	return p && !early_has(p) && guard_find_next() && next.usable_size ? next.usable_size(p) :
									     0;
}

/* ---- change the size ---- */

static size_t size_of(void *p)
{
	if (heap_has(p))
		return heap_size(p);
	if (early_has(p))
		return early_left(p);
	return next.usable_size ? next.usable_size(p) : 0;
}

/* A sampled block, before or after: into another one. */
static void *move(void *p, size_t bytes, const uint64_t *frame)
{
	const struct heap_request request = { .bytes = bytes, .frame = frame };
	void *to = heap_take(&request);

	if (!to && !heap_has(p) && !early_has(p))
		return next.realloc(p, bytes);
	size_t there = size_of(p);
	if (!to)
		to = guard_find_next() ? next.malloc(bytes) : early_take(bytes);
	if (!to)
		return NULL;
	memcpy(to, p, there < bytes ? there : bytes);
	if (heap_has(p))
		heap_give(p, HEAP_OF_MALLOC, frame);
	else if (!early_has(p))
		next.free(p);
	return to;
}

GUARD(void *, realloc, (void *p, size_t bytes))
{
	const uint64_t *frame = GUARD_HERE;

	if (!p) {
		const struct heap_request request = { .bytes = bytes, .frame = frame };
		void *to = guard_find_next() ? heap_take(&request) : NULL;

		if (to)
			return to;
		return guard_find_next() ? next.realloc(NULL, bytes) : early_take(bytes);
	}
	if (heap_is_plain(p) && bytes && bytes < HEAP_LARGE_BYTES && heap_passes())
		return next.realloc(p, bytes);
	if (heap_has(p) && (!bytes || !heap_size(p))) {
		/* The address is not of a block that is in use: an error, which is reported. */
		heap_give(p, HEAP_OF_MALLOC, frame);
		return bytes ? next.malloc(bytes) : NULL;
	}
	if (!heap_has(p) && !early_has(p) && (!is_for_next(p, frame) || !bytes))
		return bytes ? next.malloc(bytes) : next.realloc(p, bytes);
	return move(p, bytes, frame);
}

GUARD(void *, reallocarray, (void *p, size_t n, size_t size))
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return GUARD_NAME(realloc)(p, bytes);
}
