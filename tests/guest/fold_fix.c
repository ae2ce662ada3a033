/* SPDX-License-Identifier: MIT */
/* fold_fix.c - a patch of fold_a() of code.c, which must not change fold_b(). */
#include <trapline/tools.h>

static volatile long *patched;
TRAPLINE_PATCH_OLD(patched, "patched");

static long other_fold(long x)
{
	*patched = 1;
	return x * 3 + 7;
}
TRAPLINE_PATCH("fold_a", other_fold);
