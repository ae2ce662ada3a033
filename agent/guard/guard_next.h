/* SPDX-License-Identifier: MIT */
/*
 * guard_next.h - the function of libc, or of another object that is preloaded, behind one of
 * Trapline.
 */
#ifndef AGENT_GUARD_NEXT_H
#define AGENT_GUARD_NEXT_H

#include "agent/guard/guard.h"

/* In a function of that name: next_NAME, found once. */
#define NEXT(name)                            \
	static __typeof__(name) *next_##name; \
	if (!next_##name)                     \
	next_##name = (__typeof__(name) *)guard_next(#name)

#endif
