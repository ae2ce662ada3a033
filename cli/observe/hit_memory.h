/* SPDX-License-Identifier: MIT */
/* hit_memory.h - memory as it was at a hit, as far as the hit has a copy of its stack. */
#ifndef CLI_OBSERVE_HIT_MEMORY_H
#define CLI_OBSERVE_HIT_MEMORY_H

#include "report/lang/object.h"

#include <trapline/trapline.h>

/*
 * From the copy; else (hit NULL too) as it is now, and *is_later becomes true. 0, or -EFAULT: it cannot be read, or was below
 * the stack pointer, where other functions have been since.
 */
int hit_memory_read(struct symbols *s, const struct trapline_hit *hit, uint64_t address, void *to,
		    size_t n, bool *is_later);

/* Lets object_read() look into the copy. */
void hit_memory_of_object(const struct trapline_hit *hit, struct object *o);

#endif
