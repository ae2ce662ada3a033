/* SPDX-License-Identifier: MIT */
/* patch_none.c - functions are replaced on x86-64 only. */
#include "patch/patch_api.h"

#include <errno.h>

#include "core/explain.h"

static int no_patch(void)
{
	return failed(-EOPNOTSUPP, FAILED_CODE, "code is changed on x86-64 only");
}

TRAPLINE_API int trapline_patch(struct trapline *t, const struct trapline_patch_function *functions,
				size_t n, const struct trapline_patch_opts *opts,
				struct trapline_patch **out)
{
	return no_patch();
}

TRAPLINE_API int trapline_patch_wait(struct trapline_patch *patch, uint64_t timeout_ns)
{
	return no_patch();
}

TRAPLINE_API int trapline_patch_undo(struct trapline_patch *patch, uint64_t timeout_ns)
{
	return no_patch();
}

TRAPLINE_API int trapline_patch_stats(struct trapline_patch *patch,
				      struct trapline_patch_stats *out)
{
	return no_patch();
}
