/* SPDX-License-Identifier: MIT */
/* hit_memory.c - see hit_memory.h. */
#include "cli/observe/hit_memory.h"

#include <errno.h>
#include <string.h>

#define RED_ZONE 128u /* below sp, in which leaf functions of x86-64 have variables */

int hit_memory_read(struct symbols *s, const struct trapline_hit *hit, uint64_t address, void *to,
		    size_t n, bool *is_later)
{
	uint64_t copied = hit ? (uint64_t)hit->stack_bytes_len + hit->stack_below : 0;
	uint64_t offset = hit ? address - hit->sp + hit->stack_below : 0;

	if (offset < copied && n <= copied - offset) {
		memcpy(to, (const char *)hit->stack_bytes - hit->stack_below + offset, n);
		return 0;
	}
	if (hit && hit->sp - address - 1 < RED_ZONE)
		return -EFAULT;
	*is_later = true;
	return symbols_read(s, address, to, n);
}

void hit_memory_of_object(const struct trapline_hit *hit, struct object *o)
{
	if (!hit->stack_bytes)
		return;
	o->stack = (const char *)hit->stack_bytes - hit->stack_below;
	o->sp = hit->sp - hit->stack_below;
	o->stack_len = (size_t)hit->stack_bytes_len + hit->stack_below;
}
