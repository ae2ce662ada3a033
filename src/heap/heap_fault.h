/* SPDX-License-Identifier: MIT */
/*
 * heap_fault.h - SIGSEGV: faults in the pool are errors of the heap, all others are the program's
 * (guest/segv.h).
 */
#ifndef HEAP_FAULT_H
#define HEAP_FAULT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Takes SIGSEGV, also once more. 0 or -errno. Not in a handler. */
int heap_fault_start(void);
void heap_fault_forked(void);

/*
 * Calls on a stack of Trapline, which a thread's may be too small for. false: all of them are in
 * use.
 */
bool heap_fault_call(void (*call)(void *), void *arg);

/* Copies what a program gave to a system call. false: not all of it can be read. AS-Safe. */
bool heap_fault_copy(void *to, const void *from, size_t bytes);

/*
 * The program ends by a signal: SIGSEGV at the return from the handler, where its access faults
 * again; any other at once.
 */
void heap_fault_end(int signal);

#endif
