/* SPDX-License-Identifier: MIT */
/* hit_memory.c - see hit_memory.h. */
#include "cli/observe/hit_memory.h"

#include <errno.h>
#include <string.h>

#define RED_ZONE 128u /* below sp, in which leaf functions of x86-64 have variables */

int hit_memory_read(struct symbols *s, const struct trapline_hit *hit, uint64_t address, void *to,
		    size_t n, bool *is_later)
{
	const void *copy;
	size_t copied;

	if (hit && !trapline_hit_memory(hit, address, &copy, &copied) && n <= copied) {
		memcpy(to, copy, n);
		return 0;
	}
	if (hit && hit->sp - address - 1 < RED_ZONE)
		return -EFAULT;
	*is_later = true;
	return symbols_read(s, address, to, n);
}

static size_t find_copy(const void *hit, uint64_t address, const void **out)
{
	size_t n;

	return trapline_hit_memory(hit, address, out, &n) ? 0 : n;
}

void hit_memory_begin(struct symbols_copies *copies, struct symbols *s,
		      const struct trapline_hit *hit)
{
	*copies = (struct symbols_copies){ .find = find_copy, .hit = hit };
	symbols_use_copies(s, hit ? copies : NULL);
}

bool hit_memory_end(struct symbols_copies *copies, struct symbols *s)
{
	symbols_use_copies(s, NULL);
	return copies->missed;
}

const char *hit_memory_remedy(const struct trapline_hit *hit)
{
	if (!hit->event)
		return "a probe copies registers, their text and the stack; use --mechanism uprobe";
	if (trapline_event_mechanism(hit->event) == TRAPLINE_BY_RING)
		return "without BPF the kernel copies no memory at a hit; run trapline as root";
	return "it is more than the kernel copies, or lay in no page then; ask for less, or use "
	       "'trapline break --then snapshot', which keeps all memory of one hit";
}
