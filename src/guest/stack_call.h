/* SPDX-License-Identifier: MIT */
/*
 * stack_call.h - a function called on a stack of ours, from where an unwinder finds the way back.
 *
 * A handler may stand on the program's own alternate stack, which has a few KiB, or on a small stack of a
 * coroutine. This is the only way to leave it. The kernel asks the stack pointer whether a thread is on
 * its alternate stack (on_sig_stack()): if not, the next signal with SA_ONSTACK begins at its top again, over
 * the frames that were left there. So while the function runs:
 *
 *	- All signals are blocked but SIGSEGV and SIGTRAP, which instructions raise. The program's
 *	  handlers wait, and none can leave by siglongjmp(3) over our frames.
 *	- The thread has no alternate stack, if it stood on it. So our handlers, for what our own code
 *	  raises, go on below on our stack. The kernel refuses such a change on an alternate stack
 *	  (EPERM): it is made on ours.
 *	- SIGSEGV and SIGTRAP that are sent wait in base/sent.h.
 *
 * The mask and the alternate stack are as before, to the bit, when it returns.
 */
#ifndef GUEST_STACK_CALL_H
#define GUEST_STACK_CALL_H

#include <stddef.h>

/* Below the stack pointer that a program has lie bytes of its own: who pushes there leaves them out. */
#define STACK_RED_ZONE 128u
/* Of the caller's stack. The test `stack_call` measures it. */
#define STACK_CALL_BYTES 384u

/*
 * top: one past the last of the stack's bytes, aligned to 16. A call from a function that runs on this very
 * stack, as of a handler of ours, is a plain call. The function returns: it does not jump out. AS-Safe.
 */
void stack_call(void *top, size_t bytes, void (*call)(void *), void *arg)
	__attribute__((visibility("hidden")));

#endif
