/* SPDX-License-Identifier: MIT */
/* heap_none.c - where the heap detector does not exist: see heap_api.c. */
#include <errno.h>

#include <trapline/heap.h>

#include "core/explain.h"

TRAPLINE_API int trapline_heap_start(struct trapline *t, const struct trapline_heap_opts *opts,
				     struct trapline_heap **out)
{
	return failed(-EOPNOTSUPP, FAILED_EVENT, "a search for heap errors needs x86-64");
}

TRAPLINE_API int trapline_heap_stats(struct trapline_heap *heap, struct trapline_heap_stats *out)
{
	return -EINVAL;
}

TRAPLINE_API void trapline_heap_stop(struct trapline_heap *heap)
{
}
