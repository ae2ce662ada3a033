/* SPDX-License-Identifier: MIT */
/* patched_more.c - see patched.c. */
#include "patched.h"

static volatile int hidden = 50;

static NOINLINE int helper(int x)
{
	return x * 3 + hidden;
}

int more(int x)
{
	return helper(x) + 100;
}
