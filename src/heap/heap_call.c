/* SPDX-License-Identifier: MIT */
/*
 * heap_call.c - memory that a program gives to a system call.
 *
 * The kernel does not fault in the pool: the call would fail with EFAULT, which it does not without
 * us. So the pages get access before the call, and lose it after a call that did not go beyond its
 * block.
 */
#include "heap/heap.h"

#include "base/atomic.h"
#include "base/memory.h"
#include "heap/heap_pages.h"
#include "heap/heap_pool.h"
#include "heap/heap_tell.h"

#define BYTES_MAX 262144u /* that get access: calls may be given more than they use */

size_t heap_open_for_call(const void *p, size_t bytes)
{
	uintptr_t at = (uintptr_t)p;
	const struct heap_slot *slot = heap_pool_slot(at);
	size_t fine = 0;

	if (slot && atomic_get(&slot->state) == HEAP_SLOT_LIVE && at >= slot->start &&
	    at - slot->start < slot->bytes)
		fine = slot->start + slot->bytes - at;
	if (fine >= bytes || heap_is_over || heap_is_growth)
		return bytes;
	size_t left = heap_range.start + heap_range.bytes - at;
	size_t opened = bytes < BYTES_MAX ? bytes : BYTES_MAX;

	heap_pool_let_all(at, opened < left ? opened : left);
	return fine;
}

void heap_protected(const void *p, size_t bytes)
{
	uintptr_t at = (uintptr_t)p;
	struct heap_slot *slot = heap_pool_slot(at);

	for (; slot && slot->base < at + bytes; slot = heap_pool_next(slot))
		if (atomic_get(&slot->state) == HEAP_SLOT_LIVE)
			atomic_set(&slot->is_protected, 1u);
}

void heap_report_call(const void *p, size_t fine, size_t bytes, bool is_write,
		      const uint64_t *frame)
{
	uintptr_t at = (uintptr_t)p;
	struct heap_slot *slot = heap_pool_slot(at);

	if (bytes <= fine || !slot) {
		heap_pool_close_again(at, BYTES_MAX);
		return;
	}
	struct heap_error error = { .kind = HEAP_OVERFLOW,
				    .access = is_write ? HEAP_WRITE : HEAP_READ,
				    .address = at + fine,
				    .bytes = bytes - fine,
				    .slot = slot,
				    .frame = frame,
				    .in_system_call = true };
	if (atomic_get(&slot->state) == HEAP_SLOT_FREED)
		error.kind = HEAP_USE_AFTER_FREE;
	else if (at < slot->start)
		error.kind = HEAP_UNDERFLOW;
	/* What it leaves behind the block is reported now. */
	if (is_write && error.kind == HEAP_OVERFLOW)
		atomic_set(&slot->is_told_behind, 1u);
	heap_tell(&error);
}
