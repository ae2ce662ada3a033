/* SPDX-License-Identifier: MIT */
/* patch_check.h - can a function be replaced, where does its jump go, and how long is it? */
#ifndef PATCH_PATCH_CHECK_H
#define PATCH_PATCH_CHECK_H

#include <trapline/tools.h>

/* A function as it is replaced. */
struct patch_plan {
	uint64_t old_address;
	uint64_t old_end;
	uint64_t site; /* the instruction that becomes a jump */
	uint64_t new_address;
	uint64_t new_end;
};

/* 0, or -errno with *why. */
int patch_check(const struct trapline_patch_function *function, struct patch_plan *out,
		const char **why);

#endif
