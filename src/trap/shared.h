/* SPDX-License-Identifier: MIT */
/* shared.h - signals to the process that wait while a handler of Trapline runs. */
#ifndef TRAP_SHARED_H
#define TRAP_SHARED_H

#include <stdint.h>
#include <ucontext.h>

/*
 * At the end of a callback, all signals blocked but SIGTRAP: one that the first thread is to take
 * is left to it. Blocks SIGTRAP until the handler is left. AS-Safe.
 */
void trap_leave_shared(const ucontext_t *context);
/* The same before the thread's mask becomes this one. SIGTRAP is left as it is. AS-Safe. */
void trap_leave_shared_to(uint64_t mask);

#endif
