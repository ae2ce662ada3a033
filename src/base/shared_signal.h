/* SPDX-License-Identifier: MIT */
/* shared_signal.h - signals to the process that wait while a thread has all of them blocked. */
#ifndef BASE_SHARED_SIGNAL_H
#define BASE_SHARED_SIGNAL_H

#include <stdint.h>

/*
 * Before the thread's mask becomes this one: a signal that the first thread is to take is left to
 * it. All signals are blocked until then, or some come in here. AS-Safe.
 */
void shared_signal_leave(uint64_t mask);

#endif
