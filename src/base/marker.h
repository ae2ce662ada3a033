/* SPDX-License-Identifier: MIT */
/*
 * marker.h - signals that a thread has blocked in place of others, which stay unblocked:
 * guest/signals.c. The command does it for threads that ran before.
 */
#ifndef BASE_MARKER_H
#define BASE_MARKER_H

#include <signal.h>

#define MARKER_OF_SIGTRAP SIGSTKFLT
#define MARKER_OF_SIGSEGV 64 /* the last real-time signal */

#endif
