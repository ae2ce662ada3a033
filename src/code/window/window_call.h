/* SPDX-License-Identifier: MIT */
/* window_call.h - system calls in a window: see window_call.c. */
#ifndef CODE_WINDOW_CALL_H
#define CODE_WINDOW_CALL_H

#include "code/window/window.h"

/* WINDOW_RUNS: the system call of the registers is to run in place; else why the window ends before it. */
enum window_reason window_call_before(struct window_area *area);
/* After it, in each case. */
void window_call_after(struct window_area *area);

/* window_run.c */
int window_signal_waits(const struct window_area *area);
/* Closes the account of a window: pc is where the thread goes on. */
void window_finish(struct window_area *area, uint64_t pc, enum window_reason reason);

#endif
