/* SPDX-License-Identifier: MIT */
/*
 * heap_copy.c - see heap_copy.h.
 *
 * glibc's functions keep the destination in rax, and the length in rdx until the ends are done. So
 * the registers are believed only if the address that faulted is in a range that they describe.
 */
#include "heap/heap_copy.h"

#include <dlfcn.h>
#include <stddef.h>
#include <unwind.h>

#include "base/atomic.h"
#include "heap/heap.h"
#include "trap/arch.h"

#define RAX 0u /* by DWARF number */
#define RDX 1u
#define RSI 4u
#define COUNT 3u

static const void *functions[COUNT]; /* as this processor has them */

static const void *function_of(uint64_t pc)
{
	return _Unwind_FindEnclosingFunction((void *)(uintptr_t)pc);
}

void heap_copy_start(void)
{
	static const char *const names[COUNT] = { "memcpy", "memmove", "memset" };

	for (uint32_t i = 0; i < COUNT; i++) {
		const char *at = dlsym(RTLD_DEFAULT, names[i]);

		functions[i] = at ? function_of((uintptr_t)at + 1) : NULL;
	}
}

static bool is_copy(uint64_t pc, bool *is_set)
{
	const void *function = function_of(pc + 1);

	for (uint32_t i = 0; function && i < COUNT; i++)
		if (functions[i] == function) {
			*is_set = i == COUNT - 1;
			return true;
		}
	return false;
}

bool heap_copy_has(uint64_t pc)
{
	bool is_set;

	return is_copy(pc, &is_set);
}

/* The range begins in the block, or before or behind it in its own slot. */
static bool leaves_block(uintptr_t start, size_t bytes, struct heap_copy *out)
{
	const struct heap_slot *slot = heap_has((void *)start) ? heap_pool_slot(start) : NULL;

	if (!slot || start - slot->base >= slot->room)
		return false;
	uintptr_t end = slot->start + slot->bytes;
	uint32_t state = atomic_get(&slot->state);

	if (state == HEAP_SLOT_FREED || (state == HEAP_SLOT_LIVE && start < slot->start))
		end = start;
	else if (state != HEAP_SLOT_LIVE || start + bytes <= end)
		return false;
	out->slot = slot;
	out->address = start > end ? start : end;
	out->bytes = start + bytes - out->address;
	return true;
}

bool heap_copy_find(const ucontext_t *context, uintptr_t address, struct heap_copy *out)
{
	uint64_t to;
	uint64_t from;
	uint64_t bytes;
	bool is_set;

	if (!is_copy(arch_pc(context), &is_set) || arch_register(context, RAX, &to) ||
	    arch_register(context, RSI, &from) || arch_register(context, RDX, &bytes))
		return false;
	bool is_from = !is_set && address - from < bytes;

	if (to + bytes < to || from + bytes < from || (!is_from && address - to >= bytes))
		return false;
	out->is_write = true;
	if (leaves_block(to, bytes, out))
		return true;
	out->is_write = false;
	return !is_set && leaves_block(from, bytes, out);
}
