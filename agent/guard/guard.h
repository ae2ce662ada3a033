/* SPDX-License-Identifier: MIT */
/* guard.h - what the files of the object share that is preloaded for `trapline heap`. */
#ifndef AGENT_GUARD_H
#define AGENT_GUARD_H

#include "heap/heap.h"

/*
 * In the object that is preloaded they have the names of what they interpose. In the agent, which
 * is loaded into a running process, jumps in those functions lead to them (guard_late.h).
 */
#ifdef GUARD_ATTACHED
#include "agent/guard/guard_late.h"
#define GUARD_NAME(name) guard_##name
#define GUARD_EXPORT
#define GUARD_ENTRY(name)                                      \
	static const struct guard_entry guard_entry_##name     \
		__attribute__((section("guard_entries"), used, \
			       aligned(sizeof(void *)))) = { #name, (void *)GUARD_NAME(name) };
#else
#define GUARD_NAME(name) name
#define GUARD_EXPORT __attribute__((visibility("default")))
#define GUARD_ENTRY(name)
#endif

/* Declares a function that is before another, and begins its definition. */
#define GUARD(type, name, parameters)                  \
	GUARD_EXPORT type GUARD_NAME(name) parameters; \
	GUARD_ENTRY(name)                              \
	GUARD_EXPORT type GUARD_NAME(name) parameters

/* false while this thread looks for the allocator behind, which may allocate. */
bool guard_find_next(void);
/* The function behind one of Trapline. */
void *guard_next(const char *name);

/* The caller's stack is found from the frame of the function that it called. */
#define GUARD_HERE ((const uint64_t *)__builtin_frame_address(0))

/* By which operator of C++ the thread reached malloc() or free(). */
extern __thread enum heap_family guard_family __attribute__((tls_model("initial-exec")));

#endif
