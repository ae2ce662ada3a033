/* SPDX-License-Identifier: MIT */
/* hit_memory.h - memory as it was at a hit, as far as the hit has a copy of it. */
#ifndef CLI_OBSERVE_HIT_MEMORY_H
#define CLI_OBSERVE_HIT_MEMORY_H

#include "report/dwarf/symbols.h"

#include <trapline/trapline.h>

/*
 * From the copies; else (hit NULL too) as it is now, and *is_later becomes true. 0, or -EFAULT: it
 * cannot be read, or was below the stack pointer, where other functions have been since.
 */
int hit_memory_read(struct symbols *s, const struct trapline_hit *hit, uint64_t address, void *to,
		    size_t n, bool *is_later);

/* What values lead to is that of the hit, until the end, which shows whether some of it is not. */
void hit_memory_begin(struct symbols_copies *copies, struct symbols *s,
		      const struct trapline_hit *hit);
bool hit_memory_end(struct symbols_copies *copies, struct symbols *s);

/* Why memory of such a hit was read later, and what helps. */
const char *hit_memory_remedy(const struct trapline_hit *hit);

#endif
