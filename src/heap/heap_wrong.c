/* SPDX-License-Identifier: MIT */
/*
 * heap_wrong.c - free() of what no allocator gave: asked for each block that is not sampled.
 *
 * Only what is certain is reported: an address on the stack of the thread, or in the data of the
 * program or of a library. One that is not a multiple of the allocator's is certain, too.
 */
#include "base/maps.h"
#include "heap/heap.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "heap/heap_tell.h"

/* The stack that the thread runs on, as far as it is known. Threads that allocate have one each. */
static __thread struct {
	uintptr_t start;
	uintptr_t end; /* 0: not known yet */
} stack __attribute__((tls_model("initial-exec")));

/*
 * A thread of libc has its control block at the upper end of its stack, and a page without access
 * at the lower one. So no matter what else lies above, below that block it is the stack.
 */
static void find_stack(uintptr_t frame)
{
	uintptr_t block = (uintptr_t)__builtin_thread_pointer();
	struct maps_row found;

	if (maps_find(0, frame, NULL, 0, &found))
		found.start = found.end = frame;
	stack.start = found.start;
	stack.end = block - found.start < found.end - found.start ? block : found.end;
	/*
	 * The first thread's stack is a mapping alone, with what the kernel gave; others may lie
	 * among blocks.
	 */
	if (stack.end != block && getauxval(AT_RANDOM) - found.start >= found.end - found.start)
		stack.end = stack.start + 1;
}

static bool is_on_stack(uintptr_t address, uintptr_t frame)
{
	if (address - frame >= HEAP_STACK_BYTES)
		return false;
	if (!stack.end || (address < stack.end && frame < stack.start))
		find_stack(frame);
	return address < stack.end && frame >= stack.start;
}

/* The loader has blocks of its own in its data, from before there was an allocator. */
static bool is_in_data(const void *p)
{
	struct dl_find_object object;

	return !_dl_find_object((void *)(uintptr_t)p, &object) &&
	       !strstr(object.dlfo_link_map->l_name, "/ld-");
}

static bool find_wrong(void *p, const uint64_t *frame, enum heap_memory *out)
{
	*out = HEAP_MEMORY_STACK;
	if (is_on_stack((uintptr_t)p, (uintptr_t)frame))
		return true;
	*out = HEAP_MEMORY_DATA;
	if ((uintptr_t)p - heap_data.start < heap_data.bytes && is_in_data(p))
		return true;
	*out = HEAP_MEMORY_UNALIGNED;
	return (uintptr_t)p & (HEAP_LEAST_ALIGNMENT - 1);
}

bool heap_is_wrong(void *p, const uint64_t *frame)
{
	struct heap_error error = { .kind = HEAP_INVALID_FREE,
				    .address = (uintptr_t)p,
				    .frame = frame };

	if (!find_wrong(p, frame, &error.memory))
		return false;
	heap_self.busy++;
	heap_tell(&error);
	heap_self.busy--;
	return true;
}
