/* SPDX-License-Identifier: MIT */
/*
 * heap_fault.h - SIGSEGV: faults in the pool are errors of the heap, all others are the program's.
 *
 * The program's action is kept here, and it gets its own faults as before. Without a handler it dies by
 * the fault itself, so that the core file is as without us.
 */
#ifndef HEAP_FAULT_H
#define HEAP_FAULT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Takes SIGSEGV. 0 or -errno. Not in a handler. */
int heap_fault_start(void);
void heap_fault_forked(void);

/* Calls on a stack of ours, which a thread's may be too small for. false: all of them are in use. */
bool heap_fault_call(void (*call)(void *), void *arg);

/* Copies what a program gave to a system call. false: not all of it can be read. AS-Safe. */
bool heap_fault_copy(void *to, const void *from, size_t bytes);

/* sigaction(2) without libc. */
int heap_fault_sigaction(int signal, const struct sigaction *action, struct sigaction *old);
/* What the program asks of sigaction(2) for SIGSEGV; both may be NULL. */
void heap_fault_set_action(const struct sigaction *action, struct sigaction *old);

/* What sigaction(2) gave as the old one: the program's instead of ours. */
void heap_fault_from_kernel(int signal, struct sigaction *old);

/* No page of ours is without access: the program has its action again. */
void heap_fault_leave(void);
/*
 * SIGSEGV is taken once more: after that, or where a thread of the program was in sigaction(2) when it was
 * taken. 0 or -errno.
 */
int heap_fault_take_again(void);

/*
 * The program ends by a signal: SIGSEGV at the return from the handler, where its access faults again;
 * any other at once.
 */
void heap_fault_end(int signal);

#endif
