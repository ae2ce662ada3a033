/* SPDX-License-Identifier: MIT */
/*
 * late_calls.h - the program's own SIGTRAP in a process that runs already.
 *
 * An agent that was preloaded is before sigaction(2) and its like. One that came later puts jumps
 * into those functions of libc. So a handler that the program installs while a tool is there is
 * recorded, and does not replace Trapline's. Else a thread would die of a trap of Trapline, or give
 * it to that handler.
 *
 * A program that makes these system calls without libc is noticed some milliseconds later, where
 * the tool ends.
 */
#ifndef GUEST_LATE_CALLS_H
#define GUEST_LATE_CALLS_H

#include <stdbool.h>

struct late_calls {
	/*
	 * Takes SIGTRAP, as signals_take_marked() and trap_install(), and the program's calls
	 * before that. Where libc cannot be changed its calls go to the kernel. keeps_open: SIGTRAP
	 * stays open where the program blocks it, with its marker instead, which the command
	 * changes back at the end. 0 or -errno. In the borrowed thread: what allocates in one of
	 * Trapline leaves an arena.
	 */
	int (*begin)(int (*end)(void), bool keeps_open);
	/*
	 * A thread of the program may have been in sigaction(2) then: waits until none is. In a
	 * thread of Trapline, which is open.
	 */
	void (*look_again)(void);
	/*
	 * Nothing of Trapline raises SIGTRAP any more: it is blocked as the program asks, and what
	 * it reads stays right.
	 */
	void (*rest)(void);
	/*
	 * Then: until the command has blocked it again where a marker is, or has ended. In a thread
	 * of Trapline.
	 */
	void (*wait_for_masks)(void);
	/*
	 * The text of libc is as it was. is_free: each thread was seen outside of Trapline's code
	 * since the last trap could come. Then an action of the program that is not the default one
	 * is the kernel's again. As for look_again().
	 */
	void (*end)(bool is_free);
};

/* Several tools may have begun: the last end is the end. */
extern const struct late_calls late_calls;

#endif
