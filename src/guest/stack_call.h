/* SPDX-License-Identifier: MIT */
/*
 * stack_call.h - a function called on a stack of Trapline, from where an unwinder finds the way
 * back.
 *
 * A handler may be on the program's own alternate stack, which has a few KiB, or on a small stack
 * of a coroutine. This is the only way to leave it. The kernel asks the stack pointer whether a
 * thread is on its alternate stack (on_sig_stack()). If it is not, the next signal with SA_ONSTACK
 * begins at its top again, over the frames that were left there. So while the function runs:
 *
 *	- All signals are blocked but SIGSEGV and SIGTRAP, which instructions raise. The program's
 *	  handlers wait, and none can leave by siglongjmp(3) over Trapline's frames.
 *	- The thread has no alternate stack, if it was on it. So Trapline's handlers, for what
 *	  Trapline's own code raises, continue below on Trapline's stack. The kernel refuses such a
 *	  change on an alternate stack (EPERM): it is made on Trapline's.
 *	- SIGSEGV and SIGTRAP that are sent wait in base/sent.h.
 *
 * The mask and the alternate stack are as before, to the bit, when it returns.
 */
#ifndef GUEST_STACK_CALL_H
#define GUEST_STACK_CALL_H

#include <stddef.h>

/*
 * Below the stack pointer that a program has are bytes of its own: code that pushes there leaves
 * them out.
 */
#define STACK_RED_ZONE 128u
/* A part of the caller's stack. The test `stack_call` measures it. */
#define STACK_CALL_BYTES 384u

/*
 * top: one past the last of the stack's bytes, aligned to 16. A call from a function that runs on
 * this very stack, as of a handler of Trapline, is a plain call. The function returns: it does not
 * jump out. AS-Safe.
 */
void stack_call(void *top, size_t bytes, void (*call)(void *), void *arg)
	__attribute__((visibility("hidden")));

#endif
