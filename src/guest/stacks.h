/* SPDX-License-Identifier: MIT */
/* stacks.h - some stacks of Trapline, for handlers of threads whose own may be too small. */
#ifndef GUEST_STACKS_H
#define GUEST_STACKS_H

#include <stdbool.h>

#define STACKS_BYTES 65536u

/* Maps them. 0 or -errno. Not in a handler. */
int stacks_start(void);
/* In a child, where the other threads are not. */
void stacks_forked(void);

/* stack_call() on one of them. false: all are in use, and nothing was called. AS-Safe. */
bool stacks_call(void (*call)(void *), void *arg);

#endif
