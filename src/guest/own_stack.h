/* SPDX-License-Identifier: MIT */
/*
 * own_stack.h - a stack of Trapline for each thread that reaches a probe.
 *
 * The program's own stack may be that of a coroutine, which ends below the next call. And on a
 * stack of Trapline no handler of the program may run, which expects as much room as it has
 * natively. So as long as a thread is there, signals wait. Those that an instruction raises come.
 */
#ifndef GUEST_OWN_STACK_H
#define GUEST_OWN_STACK_H

/* From now on probes use them. */
void own_stacks_prepare(void);
/* Gives the memory back of all on which no thread is. A thread that comes later makes its own. */
void own_stacks_end(void);

#endif
