/* SPDX-License-Identifier: MIT */
/* emulate.c - memory of this process for the emulators; see emulate.h. */
#include <string.h>

#include "code/emulate.h"

static int own_read(void *context, uint64_t address, void *out, size_t bytes)
{
	memcpy(out, (const void *)(uintptr_t)address, bytes);
	return 0;
}

static int own_write(void *context, uint64_t address, const void *in, size_t bytes)
{
	memcpy((void *)(uintptr_t)address, in, bytes);
	return 0;
}

const struct insn_memory_access insn_own_memory = { own_read, own_write, NULL };
