/* SPDX-License-Identifier: MIT */
/*
 * action_gate.h - an action of a signal goes from the program to Trapline and back, while threads
 * of the program set their own.
 *
 * The kernel cannot replace an action on a condition. So the program's calls wait while it is read,
 * replaced and recorded. Without that a handler that the program sets in this moment is replaced,
 * or is recorded and never called.
 */
#ifndef GUEST_ACTION_GATE_H
#define GUEST_ACTION_GATE_H

/*
 * Around sigaction(2) of the program. Not twice in one call. AS-Safe. A call that longjmp() left
 * makes later changes slower.
 */
void action_gate_enter(int signal);
void action_gate_exit(int signal);

/*
 * No call of the program for this signal runs from now on, until it is open again. The calling
 * thread itself passes. Waits for some 0.1 s at most, for a call that does not end.
 */
void action_gate_shut(int signal);
void action_gate_open(int signal);

/* In a forked child: the other threads are not there. */
void action_gates_forked(void);

#endif
