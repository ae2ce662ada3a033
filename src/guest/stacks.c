/* SPDX-License-Identifier: MIT */
/*
 * stacks.c - see stacks.h. A thread that takes a stack by a compare-and-exchange has it until its
 * call returns.
 */
#include "guest/stacks.h"

#include <stddef.h>
#include <stdint.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "base/memory.h"
#include "guest/stack_call.h"

#define STACKS 4u

static char *stacks;
static uint32_t is_taken[STACKS];

int stacks_start(void)
{
	if (stacks)
		return 0;
	char *memory = memory_map(STACKS * (size_t)STACKS_BYTES);
	if (memory_failed(memory))
		return memory_error(memory);
	atomic_set(&stacks, memory);
	return 0;
}

AT_FORK void stacks_forked(void)
{
	for (uint32_t i = 0; i < STACKS; i++)
		atomic_set_if_other(&is_taken[i], 0u);
}

bool stacks_call(void (*call)(void *), void *arg)
{
	char *first = atomic_get(&stacks);

	for (uint32_t i = 0; first && i < STACKS; i++) {
		uint32_t was = 0;

		if (!atomic_cas(&is_taken[i], &was, 1u))
			continue;
		stack_call(first + (i + 1) * (size_t)STACKS_BYTES, STACKS_BYTES, call, arg);
		atomic_set(&is_taken[i], 0u);
		return true;
	}
	return false;
}
