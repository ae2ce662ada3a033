/* SPDX-License-Identifier: MIT */
/* guard.h - what the files of the object share that is preloaded for `trapline heap`. */
#ifndef AGENT_GUARD_H
#define AGENT_GUARD_H

#include "heap/heap.h"

#define GUARD_EXPORT __attribute__((visibility("default")))
/* The caller's stack is found from the frame of the function that it called. */
#define GUARD_HERE ((const uint64_t *)__builtin_frame_address(0))

/* By which operator of C++ the thread came to malloc() or free(). */
extern __thread enum heap_family guard_family __attribute__((tls_model("initial-exec")));

#endif
